"""A change in the measured rooms is either a new measure_version or a reason why it cannot change a number."""

from breakeven.measure.sources import LEDGER, ROOMS, measured_sources_digest
from breakeven.schema.measure_version import MEASURE_VERSION


def ledger() -> list[tuple[str, int, str]]:
    lines = [line.split(maxsplit=2) for line in LEDGER.read_text().splitlines() if line.strip()]
    return [(digest, int(version), reason) for digest, version, reason in lines]


def test_the_last_line_of_the_ledger_is_the_sources_as_they_are():
    digest = measured_sources_digest()
    assert ledger()[-1][0] == digest, (
        "The measured rooms have changed. If a measured number can change, raise MEASURE_VERSION "
        f"(schema/measure_version.py). Then add the line '{digest} <measure_version> <reason>' to {LEDGER}."
    )


def test_the_ledger_ends_at_the_current_measure_version():
    assert ledger()[-1][1] == MEASURE_VERSION


def test_measure_versions_only_rise():
    versions = [version for _, version, _ in ledger()]
    assert versions == sorted(versions)


def test_the_digest_sees_every_file_of_the_measured_rooms_and_nothing_else(tmp_path):
    for room in (*ROOMS, "figures"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "a.py").write_text("x = 1\n")
    before = measured_sources_digest(tmp_path)
    (tmp_path / "figures" / "a.py").write_text("x = 2\n")
    (tmp_path / "measure" / "sources.txt").write_text("a note\n")
    assert measured_sources_digest(tmp_path) == before
    (tmp_path / "measure" / "a.py").rename(tmp_path / "measure" / "b.py")
    assert measured_sources_digest(tmp_path) != before
