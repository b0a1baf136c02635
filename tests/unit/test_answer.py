"""The sentences, word for word, on tables whose numbers are known."""

from pathlib import Path

import pandas as pd

from breakeven.figures.view import read_table, view
from breakeven.report.answer import Answer, answers, plain_text
from breakeven.report.study import read_studies
from tests.study_tables import Tables, published, two_cores


def answers_of(tables: Tables, folder: Path) -> list[Answer]:
    tables.write(folder)
    frames = [read_table(folder / "tables" / f"{name}.csv") for name in ("points", "efficiency", "breakeven")]
    runs = folder / "tables" / "runs.csv"
    what = view(str(frames[1]["workload"].iloc[0]), *frames)
    return answers(what, frames[0], read_table(runs) if runs.exists() else None)


def llama(times: list[tuple[int, float | None, str]], status: str = "oom") -> Tables:
    tables = Tables("llm")
    tables.add("Llama", "Llama, fsdp, strong", times, scaling="strong", device="H100-SXM", status=status)
    return tables


def test_bert_as_published(tmp_path: Path) -> None:
    (answer,) = answers_of(published(), tmp_path)
    assert answer.lead == (
        "BERT on H100-SXM (best submission per size, against 4): efficiency 0.94 at 8, 0.77 at 16, 0.64 at 48, "
        "0.71 at 64, 0.10 at 3472; 64 is the largest size tested that keeps at least 0.70 (95 % interval of "
        "the break-even 48 to 64; the curve first crosses it near 28; 48 falls below it and 64 returns; "
        "next tested size 3472)."
    )
    assert answer.steps == (
        "Each step: 4 to 8, 1.9 times faster for 1.1 times the device-hours; 8 to 16, 1.6 times faster for 1.2; "
        "16 to 48, 2.5 times faster for 1.2; 48 to 64, 1.5 times faster for 0.90; 64 to 3472, 7.5 times faster for 7.2."
    )


def test_two_cores_keep_the_threshold_up_to_the_largest_size(tmp_path: Path) -> None:
    strong, weak = answers_of(two_cores(), tmp_path)
    assert strong.text == (
        "MobileNetV2 on CPU cores (ddp, strong scaling, against ddp on 1 CPU core): efficiency 0.87 at 2 (95 % "
        "interval 0.86 to 0.89); break-even (efficiency below 0.70) not reached up to 2, the largest size tested. "
        "Each step: 1 to 2, 1.7 times faster for 1.1 times the core-hours. 3 of 18 runs gave no time (failed)."
    )
    assert weak.subject == "MobileNetV2 on CPU cores (ddp, weak scaling, against ddp on 1 CPU core)"


def test_what_the_strategy_itself_costs_is_told_against_single(tmp_path: Path) -> None:
    tables = two_cores()
    tables.add("MobileNetV2", "MobileNetV2, single, strong", [(1, 11.0, "")], scaling="strong", device="CPU core",
               headline=False, work=1437.0)  # fmt: skip
    single = tables.others["runs"].iloc[:1].assign(strategy="single", series="MobileNetV2, single, strong")
    tables.others["runs"] = pd.concat([tables.others["runs"], single])
    strong, weak = answers_of(tables, tmp_path)
    assert strong.single == (
        "On 1 CPU core, single does 131 samples/s and ddp 116; against single, ddp keeps 0.77 at 2."
    )
    assert "ddp 111" in weak.single
    assert strong.single in strong.text


def test_runs_on_a_busy_machine_are_told_beside_the_answer(tmp_path: Path) -> None:
    tables = two_cores()
    tables.others["runs"]["idle"] = [False, False, *[True] * 5]
    for answer in answers_of(tables, tmp_path):
        assert answer.caveats[0] == "2 of 7 runs began while others used the machine."


def test_one_repeat_is_told(tmp_path: Path) -> None:
    (answer,) = answers_of(llama([(1, 10.0, ""), (2, 5.2, "")]), tmp_path)
    assert answer.caveats == ("One repeat: no interval between repeats.",)


def test_every_efficiency_has_its_interval_and_stays_on_one_line_with_its_size(tmp_path: Path) -> None:
    tables = Tables("my-timings")
    times = [(n, 100.0 / n * n**0.1, "") for n in (1, 2, 4, 8, 16, 32)]
    tables.add("my-timings", "my-timings, strong", times, scaling="strong", device="device", spread=0.05)
    tables.break_even("my-timings", "my-timings, strong", 32)
    (answer,) = answers_of(tables, tmp_path)
    assert answer.lead.startswith(
        "my-timings (strong scaling, against 1): efficiency 0.93 at 2 (95 % interval 0.89 to 0.98), "
        "0.87 at 4 (0.83 to 0.91)"
    )
    lines = plain_text(read_studies([("my-timings", tmp_path)], {})).splitlines()
    assert all(len(line) <= 100 for line in lines)
    for part in ("0.93 at 2", "0.87 at 4", "0.81 at 8", "0.76 at 16", "0.71 at 32"):
        assert any(part in line for line in lines)


def test_one_size_is_no_curve(tmp_path: Path) -> None:
    tables = llama([(8, 10.0, "")])
    tables.break_even("Llama", "Llama, fsdp, strong", 8)
    (answer,) = answers_of(tables, tmp_path)
    assert answer.lead == (
        "Llama on H100-SXM (fsdp, strong scaling): 8 H100-SXM is the only size with a time: no curve, no break-even."
    )


def test_sizes_without_a_time_are_named_with_their_status(tmp_path: Path) -> None:
    tables = llama([(1, None, ""), (2, 10.0, ""), (4, 5.2, "")])
    tables.break_even("Llama", "Llama, fsdp, strong", 4)
    (answer,) = answers_of(tables, tmp_path)
    assert answer.efficiency == "efficiency 0.96 at 4 (no time at 1: oom)"
    assert "against 2" in answer.subject


def test_nothing_but_failures(tmp_path: Path) -> None:
    (answer,) = answers_of(llama([(1, None, ""), (2, None, "")], status="failed"), tmp_path)
    assert answer.lead == "Llama on H100-SXM (fsdp, strong scaling): no size has a time (1: failed, 2: failed)."
    assert answer.caveats == ("2 of 2 runs gave no time (failed).",)


def test_a_run_that_stands_in_two_series_is_counted_once(tmp_path: Path) -> None:
    tables = llama([(1, None, ""), (2, 5.2, "")])
    tables.add("Llama", "Llama, fsdp, weak", [(1, None, ""), (2, 5.2, ""), (4, 5.5, "")], scaling="weak",
               device="H100-SXM")  # fmt: skip
    for point in tables.points:
        point["source"] = f"results/runs/llama-fsdp-n{point['devices']}/r1/record.json"
    assert answers_of(tables, tmp_path)[0].caveats[-1] == "1 of 3 runs gave no time (oom)."


def test_no_size_past_the_reference(tmp_path: Path) -> None:
    tables = llama([(1, 10.0, ""), (2, 9.0, "")])
    tables.break_even("Llama", "Llama, fsdp, strong", 1, crossing=1.56)
    (answer,) = answers_of(tables, tmp_path)
    assert answer.break_even == "no size past 1 keeps at least 0.70 (the curve crosses it near 1.6; next tested size 2)"
    assert answer.steps == "Each step: 1 to 2, 1.1 times faster for 1.8 times the device-hours."


def test_a_dip_before_a_largest_size_that_keeps_the_threshold_is_told(tmp_path: Path) -> None:
    tables = llama([(1, 10.0, ""), (2, 9.0, ""), (4, 3.0, "")])
    tables.break_even("Llama", "Llama, fsdp, strong", 4, low=1, high=4, crossing=1.56)
    (answer,) = answers_of(tables, tmp_path)
    assert answer.break_even == (
        "break-even (efficiency below 0.70) not reached up to 4, the largest size tested, though 2 falls below it and "
        "4 returns; 95 % interval of the largest size that keeps it 1 to 4"
    )


def test_slower_is_called_slower(tmp_path: Path) -> None:
    (answer,) = answers_of(llama([(1, 10.0, ""), (2, 12.0, "")]), tmp_path)
    assert answer.steps == "Each step: 1 to 2, 1.2 times slower for 2.4 times the device-hours."


def test_a_value_just_under_the_threshold_does_not_read_as_the_threshold(tmp_path: Path) -> None:
    tables = llama([(1, 10.0, ""), (2, 10 / 2 / 0.698, "")])
    tables.break_even("Llama", "Llama, fsdp, strong", 1, crossing=1.99)
    assert answers_of(tables, tmp_path)[0].efficiency == "efficiency 0.698 at 2"


def test_the_text_file_keeps_studies_apart_and_carries_the_notice(tmp_path: Path) -> None:
    folders = [(tables.study, tables.write(tmp_path / tables.study)) for tables in (published(), two_cores())]
    text = plain_text(read_studies(folders, {}))
    published_part, own_part = text.split("\n\n\n")
    assert published_part.startswith("mlperf-v4.1\n-----------\n\nBERT on H100-SXM")
    assert "not verified by MLCommons Association" in " ".join(published_part.split())
    assert "MobileNetV2 on CPU cores" in own_part
    assert "MLCommons" not in own_part


def test_a_strategy_that_the_machine_cannot_run_has_no_answer_beside_one_that_it_can(tmp_path: Path) -> None:
    tables = llama([(1, 10.0, ""), (2, 5.2, "")])
    tables.add("Llama", "Llama, dp, strong", [(1, None, ""), (2, None, "")], scaling="strong", device="H100-SXM",
               status="unsupported")  # fmt: skip
    (answer,) = answers_of(tables, tmp_path)
    assert "(fsdp, strong scaling" in answer.lead
    assert answer.caveats[-1] == "2 of 4 runs gave no time (unsupported)."
    only = Tables("llm")
    only.add("Llama", "Llama, dp, strong", [(1, None, "")], scaling="strong", device="CPU core", status="unsupported")
    assert answers_of(only, tmp_path)[0].lead.endswith("no size has a time (1: unsupported).")
