"""Reference convergence points: the committed table against the package it comes from."""

import importlib.util
from pathlib import Path

import pytest

from breakeven.mlperf.reference_points import ROUNDS, main, packaged_points, read_points
from breakeven.schema.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "workflow" / "breakeven" / "mlperf" / "rules" / "reference_convergence.csv"


def official_package() -> Path:
    spec = importlib.util.find_spec("mlperf_logging")
    if spec is None or spec.origin is None:
        pytest.skip("mlperf-logging is not installed")
    return Path(spec.origin).parent


def test_the_committed_table_is_what_the_package_says() -> None:
    made = packaged_points(official_package())
    kept = read_points(TABLE)
    assert {point.round for point in kept} == set(ROUNDS)
    for ours, theirs in zip(kept, made, strict=True):
        assert (ours.round, ours.benchmark, ours.global_batch, ours.runs, ours.unit) == (
            theirs.round,
            theirs.benchmark,
            theirs.global_batch,
            theirs.runs,
            theirs.unit,
        )
        assert (ours.mean, ours.sd) == pytest.approx((theirs.mean, theirs.sd), rel=1e-12)


def test_the_mistyped_gpt3_run_is_the_slowest_and_left_out_of_the_mean() -> None:
    (point,) = (p for p in read_points(TABLE) if (p.round, p.benchmark, p.global_batch) == ("v4.1", "gpt3", 3072))
    assert (point.runs, point.mean, point.unit) == (7, pytest.approx(1_218_025_881.6), "tokens")
    assert point.sd > point.mean


def test_the_command_writes_what_is_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "points.csv"
    arguments = ["reference_points", str(official_package()), "--rounds", "v5.1", "--out", str(out)]
    monkeypatch.setattr("sys.argv", arguments)
    main()
    again = read_points(out)
    assert [p.benchmark for p in again if p.unit == "epochs"] == ["dlrm_dcnv2"] * 6 + ["retinanet"] * 9 + ["rgat"] * 5


def test_a_folder_that_is_not_the_package_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"training_4\.1\.0: holds no reference points of round v4\.1"):
        packaged_points(tmp_path, ["v4.1"])


def test_a_damaged_file_of_the_package_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "rcp_checker" / "training_4.1.0"
    folder.mkdir(parents=True)
    (folder / "rcps_bert.json").write_text('{"bert_ref_256": {"BS": 256}}')
    with pytest.raises(UserError, match=r"rcps_bert\.json: not a file of reference points"):
        packaged_points(tmp_path, ["v4.1"])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("v4.1,bert,256,20,fast,1.0,samples", "line 2: ValueError"),
        ("v4.1,bert,256,20,1.0,1.0,miles", "line 2: unit is 'miles'"),
        ("v4.1,bert,0,20,1.0,1.0,samples", "line 2: global_batch and mean must be above 0"),
        ("v4.1,bert,256", "line 2: TypeError"),
    ],
)
def test_a_damaged_row_is_named(tmp_path: Path, row: str, message: str) -> None:
    path = tmp_path / "points.csv"
    path.write_text("round,benchmark,global_batch,runs,mean,sd,unit\n" + row + "\n")
    with pytest.raises(UserError, match=message):
        read_points(path)
