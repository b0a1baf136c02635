"""Small studies as tables, written by code: published times of BERT, and a two-core machine with a failed run."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from breakeven.mlperf.score import SCORE_COLUMNS
from breakeven.schema.point import POINT_COLUMNS

#: MLPerf Training v4.1, BERT on H100-SXM, best submission per size: devices, minutes, submitter.
BERT = [
    (4, 10.188, "Dell"),
    (8, 5.394, "Supermicro"),
    (16, 3.289, "Lambda"),
    (48, 1.333, "Clemson"),
    (64, 0.898, "NVIDIA"),
    (3472, 0.119, "NVIDIA"),
]
BERT_NVIDIA = [(8, 5.469, "NVIDIA"), (64, 0.898, "NVIDIA"), (3472, 0.119, "NVIDIA")]
BERT_LAMBDA = [(16, 3.289, "Lambda"), (64, 0.946, "Lambda")]
BERT_DELL = [(4, 10.188, "Dell"), (8, 5.509, "Dell")]
RUNS = (0.97, 1.0, 1.04, 0.99, 1.0)


@dataclass
class Tables:
    """One study's tables, as the rules would leave them."""

    study: str
    points: list[dict[str, object]] = field(default_factory=list)
    efficiency: list[dict[str, object]] = field(default_factory=list)
    breakeven: list[dict[str, object]] = field(default_factory=list)
    others: dict[str, pd.DataFrame] = field(default_factory=dict)

    def frames(self) -> dict[str, pd.DataFrame]:
        return {
            "points": pd.DataFrame(self.points, columns=POINT_COLUMNS),
            "efficiency": pd.DataFrame(self.efficiency),
            "breakeven": pd.DataFrame(self.breakeven, columns=BREAKEVEN_COLUMNS),
            **self.others,
        }

    def write(self, directory: Path) -> Path:
        """``directory`` then holds tables/, as a study's folder does."""
        (directory / "tables").mkdir(parents=True, exist_ok=True)
        for name, frame in self.frames().items():
            frame.to_csv(directory / "tables" / f"{name}.csv", index=False)
        return directory

    def add(
        self,
        workload: str,
        series: str,
        times: Sequence[tuple[int, float | None, str]],
        *,
        scaling: str,
        device: str,
        unit_s: float = 1.0,
        headline: bool = True,
        runs: Sequence[float] = (1.0,),
        status: str = "failed",
        aggregate: str = "rate",
        work: float = 1000.0,
        spread: float = 0.0,
    ) -> None:
        """A time of None is a size whose every run ended with ``status``. ``spread``: half-width of intervals."""
        common = {"study": self.study, "workload": workload, "series": series, "scaling": scaling, "device": device}
        timed = [(n, t * unit_s, label) for n, t, label in times if t is not None]
        n0, t0, label0 = timed[0] if timed else (None, None, "")
        for n, t, label in times:
            for repeat, factor in enumerate(runs):
                self.points.append(
                    {
                        **common,
                        "devices": n,
                        "nodes": -(-n // 8),
                        "repeat": repeat,
                        "status": status if t is None else "ok",
                        "time_s": None if t is None else t * unit_s * factor,
                        "samples": None if t is None else work,
                        "unit": "samples",
                        "target_work": work,
                        "aggregate": aggregate,
                        "time_factor": 1.0,
                        "headline": headline,
                        "label": label,
                    }
                )
            row: dict[str, object] = {
                **common,
                "headline": headline,
                "devices": n,
                "nodes": -(-n // 8),
                "global_batch": 64,
                "label": label,
                "repeats": len(runs),
                "runs_not_ok": 0 if t is not None else len(runs),
                "unit": "samples",
                "reference_devices": n0,
                "reference_label": label0,
            }
            numbers = dict.fromkeys(NUMBERS)
            if t is not None and t0 is not None and n0 is not None:
                speedup = t0 / (t * unit_s)
                efficiency = speedup * n0 / n
                numbers = {
                    "time_s": t * unit_s,
                    "time_s_low": t * unit_s * (1 - spread),
                    "time_s_high": t * unit_s * (1 + spread),
                    "work": work,
                    "rate_per_device": work / (t * unit_s) / n,
                    "speedup": speedup,
                    "speedup_low": speedup * (1 - spread),
                    "speedup_high": speedup * (1 + spread),
                    "efficiency": efficiency,
                    "efficiency_low": efficiency * (1 - spread),
                    "efficiency_high": efficiency * (1 + spread),
                    "device_hours": n * t * unit_s / 3600,
                    "samples": work,
                }
            self.efficiency.append({**row, **numbers, "efficiency_stat": None, "efficiency_sys": None})

    def break_even(
        self,
        workload: str,
        series: str,
        devices: float | None,
        *,
        low: float | None = None,
        high: float | None = None,
        crossing: float | None = None,
        threshold: float = 0.7,
        headline: bool = True,
        primary: bool = True,
        note: str = "",
    ) -> None:
        self.breakeven.append(
            {
                "study": self.study,
                "workload": workload,
                "series": series,
                "headline": headline,
                "criterion": f"efficiency >= {threshold:g}",
                "threshold": threshold,
                "devices": devices,
                "devices_low": devices if low is None else low,
                "devices_high": devices if high is None else high,
                "crossing": crossing,
                "primary": primary,
                "note": note,
            }
        )


NUMBERS = [
    *("time_s", "time_s_low", "time_s_high", "work", "rate_per_device", "speedup", "speedup_low", "speedup_high"),
    *("efficiency", "efficiency_low", "efficiency_high", "device_hours", "samples"),
]
BREAKEVEN_COLUMNS = [
    *("study", "workload", "series", "headline", "criterion", "threshold"),
    *("devices", "devices_low", "devices_high", "crossing", "primary", "note"),
]


def published() -> Tables:
    """BERT of MLPerf Training v4.1: the best per size as the headline, three submitters as context."""
    tables = Tables("mlperf-v4.1")
    free = {"scaling": "free", "device": "H100-SXM", "unit_s": 60.0, "aggregate": "olympic"}
    tables.add("BERT", "BERT, best H100-SXM submission per size", BERT, runs=RUNS, spread=0.04, **free)  # type: ignore[arg-type]
    for name, times in (("NVIDIA", BERT_NVIDIA), ("Lambda", BERT_LAMBDA), ("Dell", BERT_DELL)):
        tables.add("BERT", f"BERT, {name} H100-SXM", times, headline=False, **free)  # type: ignore[arg-type]
    tables.break_even("BERT", "BERT, best H100-SXM submission per size", 64, low=48, high=64, crossing=27.9)
    tables.break_even("BERT", "BERT, best H100-SXM submission per size", 8, crossing=9.1, threshold=0.9, primary=False)
    return tables


def two_cores(error: str = "RuntimeError: loss is <nan> & gone") -> Tables:
    """MobileNetV2 on CPU cores: strong and weak scaling of DDP, one strategy that failed at two cores."""
    tables = Tables("images-quick")
    cpu = {"device": "CPU core", "runs": (1.0, 1.02, 0.985), "spread": 0.02, "work": 1437.0}
    tables.add("MobileNetV2", "MobileNetV2, ddp, strong", [(1, 12.4, ""), (2, 7.1, "")], scaling="strong", **cpu)  # type: ignore[arg-type]
    tables.add("MobileNetV2", "MobileNetV2, ddp, weak", [(1, 12.9, ""), (2, 6.8, "")], scaling="weak", **cpu)  # type: ignore[arg-type]
    tables.add(
        "MobileNetV2",
        "MobileNetV2, zero1, strong",
        [(1, 12.6, ""), (2, None, "")],
        scaling="strong",
        headline=False,
        **cpu,  # type: ignore[arg-type]
    )
    tables.break_even("MobileNetV2", "MobileNetV2, ddp, strong", 2)
    tables.break_even("MobileNetV2", "MobileNetV2, ddp, weak", 2)
    tables.others = {
        "runs": pd.DataFrame([_run(n, repeat) for n in (1, 2) for repeat in range(3)] + [_run(2, 0, error)]),
        "equivalence": pd.DataFrame(
            [
                {
                    "study": "images-quick",
                    "run_id": "mobilenet_v2-ddp-n2-b64-0badcafe",
                    "strategy": "ddp",
                    "devices": 2,
                    "reference_run_id": "mobilenet_v2-single-n1-b64-deadbeef",
                    "updates": 5,
                    "max_abs_loss_difference": 2.4e-7,
                    "note": "",
                }
            ]
        ),
    }
    return tables


def with_settings(error: str = "RuntimeError: loss is <nan> & gone") -> Tables:
    """The two cores with settings compared: precision, one of its values unsupported, and a synthetic twin."""
    tables = two_cores(error)
    runs = tables.others["runs"]
    cannot = [
        _run(n, 0) | {"status": "unsupported", "error": "tf32: a CPU has none", "step_time_ms": None, "series": f"s{n}"}
        for n in (1, 2)
    ]
    tables.others["runs"] = pd.concat([runs, pd.DataFrame(cannot)], ignore_index=True)
    rows = [
        row
        for n in (1, 2)
        for row in (
            _compared("precision", "fp32", "fp32", n, 1.0),
            _compared("precision", "bf16", "fp32", n, 0.25 * n),
            _compared("precision", "tf32", "fp32", n, None, status="unsupported", note="tf32: a CPU has none"),
            _compared("precision", "bf16", "fp32", n, 0.4, held="image_size 300", headline=False),
            _compared("synthetic", "false", "false", n, 1.0),
            _compared("synthetic", "true", "false", n, 1.25, share=0.2),
        )
    ]
    tables.others["comparison"] = pd.DataFrame(rows)
    return tables


def _compared(
    setting: str,
    value: str,
    baseline: str,
    devices: int,
    speedup: float | None,
    *,
    held: str = "",
    headline: bool = True,
    share: float | None = None,
    status: str = "ok",
    note: str = "",
) -> dict[str, object]:
    spread = 0.0 if value == baseline else 0.02
    step_ms = None if speedup is None else 100 / speedup

    def ends(name: str, middle: float | None, half: float) -> dict[str, object]:
        low, high = (None, None) if middle is None else (middle - half, middle + half)
        return {name: middle, f"{name}_low": low, f"{name}_high": high}

    return {
        "study": "images-quick",
        "workload": "MobileNetV2",
        "sweep": setting,
        "series": f"MobileNetV2, ddp, {value}, strong",
        "strategy": "ddp",
        "devices": devices,
        "setting": setting,
        "value": value,
        "baseline": baseline,
        "held": held,
        "headline": headline,
        **ends("speedup", speedup, spread),
        **ends("step_time_ms", step_ms, 1.0),
        **ends("data_bound_share", share, 0.03),
        "throughput": None if step_ms is None else 64e3 / step_ms,
        "peak_memory_gib": 0.61,
        "memory_of": "host",
        "accuracy": None,
        "epochs_to_target": None,
        "repeats": 0 if speedup is None else 3,
        "runs_not_ok": 3 if speedup is None else 0,
        "status": status,
        "note": note,
    }


def _run(devices: int, repeat: int, error: str = "") -> dict[str, object]:
    strategy = "zero1" if error else "ddp"
    return {
        "study": "images-quick",
        "run_id": f"mobilenet_v2-{strategy}-n{devices}-b64-0badcafe",
        "series": f"MobileNetV2, {strategy}, strong",
        "workload": "MobileNetV2",
        "strategy": strategy,
        "devices": devices,
        "repeat": repeat,
        "status": "failed" if error else "ok",
        "step_time_ms": None if error else 310.2,
        "peak_rss_gib": 0.61,
        "warmup_dropped": 10,
        "idle": True,
        "busy_cores": 0.04,
        "error_rank": 1 if error else None,
        "error": error,
        "log": "results/runs/x/r0/run.log" if error else "",
        "elapsed_s": 21.5,
        "host": "bench",
        "device_model": "CPU",
        "torch_version": "2.11.0",
        "measure_version": 2 if error else 1,
        "measure_sources": "abc123",
    }


def write_round(results: Path, name: str = "v4.1") -> None:
    """The tables of a round that the report reads: one set whose two scores differ, one without, one of old logs."""
    folder = results / "mlperf" / name
    folder.mkdir(parents=True, exist_ok=True)
    round_scores().to_csv(folder / "scores.csv", index=False)
    anomalies = {
        "round": [name, name],
        "kind": ["corrupted_lines", "absent_file"],
        "submitter": ["NVIDIA", "Clemson"],
        "system": ["b", "c"],
        "benchmark": ["bert", "bert"],
        "file": ["NVIDIA/results/b/bert/result_1.txt", ""],
        "count": [1, 10],
        "detail": ["1 line with the MLLOG mark is not JSON", "0 of 10 logs"],
    }
    pd.DataFrame(anomalies).to_csv(folder / "anomalies.csv", index=False)
    critical_batch().to_csv(folder / "critical_batch.csv", index=False)


def round_scores() -> pd.DataFrame:
    sets = {
        "benchmark": ["bert"] * 3,
        "submitter": ["NVIDIA", "NVIDIA", "Clemson"],
        "system": ["a", "b", "c"],
        "devices": [8, 64, 56],
        "time_to_train_min": [5.0, 0.902, None],
        "time_to_train_strict_min": [5.0, 0.9, None],
        "note": ["", "", "no logs"],
        "strict_note": ["", "result_1.txt: a damaged line", ""],
        "old_logs": [False, True, False],
        "log_months": ["2024-09", "2023-05", ""],
    }
    return pd.DataFrame(sets, columns=SCORE_COLUMNS)


def critical_batch() -> pd.DataFrame:
    found = {
        "round": ["v4.1"],
        "benchmark": ["llama2_70b_lora"],
        "workload": ["llama2_70b_lora"],
        "of": ["reference"],
        "points": [3],
        "batch_min": [8],
        "batch_max": [128],
        "samples_min": [2766.0],
        "critical_batch": [41.15],
        "critical_batch_low": [35.0],
        "critical_batch_high": [48.2],
        "rmse_percent": [3.6],
        "note": [""],
    }
    return pd.DataFrame(found)
