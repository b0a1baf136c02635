"""What the self-test runs, and what it says of it."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from breakeven.head.equivalence import planned
from breakeven.head.selftest import chosen
from breakeven.metrics.equivalence import table
from breakeven.metrics.selftest import Found, text
from breakeven.records.load import Run
from breakeven.schema.checks import rows
from breakeven.schema.record import Environment, RunError
from breakeven.schema.spec import run_id
from breakeven.schema.status import Status
from breakeven.schema.strategies import known_strategies, strategy_meta
from tests.unit.test_equivalence import on_two_cores, row, run

CORES = {"device_kind": "cpu", "device_model": "Some CPU", "devices": 2, "rows": 1, "rows_of": 40, "version": "0.9"}
#: Sixteen MiB in ten milliseconds over four: algbw 1.68 GB/s, busbw x 2 * 3 / 4.
ALLREDUCE = {"devices": 4, "backend": "gloo", "torch": "2.13.0", "sizes": [{"bytes": 2**24, "time_s": 0.01}]}
OOM = RunError(rank=1, message="MemoryError: no more", log="")
HANG = RunError(rank=1, message="no progress for 30 s: rank 1 is behind", log="")
ENVIRONMENT = Environment(
    host="h", device_model="Some CPU", driver=None, power_limit_w=None, torch_version="2.13.0", measure_sources="x"
)


class TestChosen:
    def test_every_strategy_that_can_run_here_is_in_it_and_both_wrong_runs(self) -> None:
        found = chosen(on_two_cores(), 50)
        assert {one.spec.control for one in found} == {"", "no_sync", "no_update"}
        here = {
            name
            for name in known_strategies()
            if strategy_meta(name).checks and "cpu" in strategy_meta(name).device_kinds
        }
        assert {one.spec.strategy for one in found} >= here

    @pytest.mark.parametrize("runs", [4, 10, 50])
    def test_it_keeps_to_the_number_of_runs_references_included(self, runs: int) -> None:
        found = chosen(on_two_cores(), runs)
        assert found
        assert len({run_id(spec) for one in found for spec in one.specs}) <= runs

    def test_on_one_gpu_what_needs_one_device_is_left(self) -> None:
        found = chosen(rows("cuda", "a GPU", 1), 16)
        assert {one.spec.strategy for one in found} == {"single"}


def found(**changes: object) -> Found:
    one = row()
    loss = changes.pop("loss", None)
    mine = run(one.spec, **({"loss": loss} if loss else {}))
    made = table([planned(one)], {run_id(one.spec): mine, run_id(one.reference): run(one.reference)})
    usual = {
        "about": CORES,
        "table": made.astype(str),
        "oom": run(one.spec, status=Status.OOM, error=OOM, loss=[], peak_rss_gib=[1.0, 2.25]),
        "hang": run(one.spec, status=Status.TIMEOUT, error=HANG, loss=[], elapsed_s=33.4, environment=ENVIRONMENT),
        "allreduce": ALLREDUCE,
    }
    return Found(**{**usual, **changes})


class TestText:
    def test_it_ends_in_a_block_to_paste(self) -> None:
        said = text(found()).splitlines()
        assert said[0] == "Self-test of Breakeven 0.9 on 2 CPU cores (Some CPU)"
        assert said[-5] == "Verified on:"
        assert said[-1] == (
            "| 2026-01-01 | 2 CPU cores (Some CPU) | none | 2.13.0 | gloo | 1 of 1 | recorded | ended after 33 s "
            "| 2.52 GB/s busbw at 16 MiB | 0.9 |"
        )

    def test_bus_bandwidth_is_the_algorithms_times_2_n_minus_1_over_n(self) -> None:
        line = next(line for line in text(found()).splitlines() if line.strip().startswith("16 MiB"))
        assert line.split() == ["16", "MiB", "10.000", "ms", "1.678", "2.517"]

    def test_a_core_is_never_called_a_gpu(self) -> None:
        assert "GPU" not in text(found())
        assert "8 x Some GPU" in text(
            found(about=CORES | {"device_kind": "cuda", "device_model": "Some GPU", "devices": 8})
        )

    def test_one_device_exchanges_nothing(self) -> None:
        assert "nothing to exchange" in text(found(allreduce=ALLREDUCE | {"devices": 1}))

    @pytest.mark.parametrize(
        ("changes", "line"),
        [
            ({"loss": [1.0, 1, 1, 1, 1, 1]}, "  ddp (llama, 2 devices): losses differ by 5.2e+00"),
            ({"oom": run(row().spec)}, "  memory that ran out was recorded as ok"),
            (
                {
                    "hang": run(
                        row().spec, status=Status.TIMEOUT, error=dataclasses.replace(HANG, message="did not end")
                    )
                },
                "  a run that hangs was recorded as timeout; did not end",
            ),
        ],
    )
    def test_what_went_wrong_is_named_and_nothing_is_verified(
        self, changes: dict[str, Run], line: str, tmp_path: Path
    ) -> None:
        said = text(found(**changes))
        assert "Verified on:" not in said
        assert any(one.startswith(line) for one in said.splitlines())
        file = tmp_path / "selftest.txt"
        file.write_text(said)
        command = [sys.executable, "-m", "breakeven.metrics.selftest", "show", str(file)]
        answer = subprocess.run(command, capture_output=True, text=True)
        assert answer.returncode == 1
        assert answer.stdout == said
        assert answer.stderr == f"breakeven: {file}: the self-test failed.\n"
