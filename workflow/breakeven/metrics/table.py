"""Tables over a study's runs: ``runs.csv`` and ``equivalence.csv``."""

from typing import Any

import numpy as np
import pandas as pd

from breakeven.metrics.run import own_step_s, window
from breakeven.records.load import Run
from breakeven.schema.spec import Spec

RUN_COLUMNS = [
    "study", "run_id", "series", "workload", "strategy", "devices", "global_batch", "repeat", "status",
    "step_time_ms", "step_time_ms_p10", "step_time_ms_p90", "throughput", "unit", "window_s", "window_s_se",
    "window_work", "epoch_work", "warmup_dropped", "stationary", "data_wait_share", "sync_wait_share",
    "slowest_rank_excess", "peak_rss_gib", "peak_allocated_gib", "peak_reserved_gib", "parameters",
    "trainable_parameters", "loss_first", "loss_last", "idle", "busy_cores", "lock_wait_s", "attempts",
    "error_rank", "error", "log", "elapsed_s", "started_at", "host", "device_model", "driver", "power_limit_w",
    "torch_version", "measure_version", "measure_sources", "faults",
]  # fmt: skip
EQUIVALENCE_COLUMNS = [
    "study", "run_id", "strategy", "devices", "reference_run_id", "updates", "max_abs_loss_difference", "note",
]  # fmt: skip
#: Updates whose losses are compared: enough to show a wrong gradient, few enough that rounding has not grown.
COMPARED = 5


def runs_table(study: str, workload: str, series: dict[str, str], runs: list[Run]) -> pd.DataFrame:
    """One row per record, whatever its status. ``series`` names each run id's curve."""
    return pd.DataFrame([_row(study, workload, series, run) for run in runs], columns=RUN_COLUMNS)


def _row(study: str, workload: str, series: dict[str, str], run: Run) -> dict[str, Any]:
    record, spec = run.record, run.record.spec
    text = spec.workload.sequence_length is not None
    losses = run.steps["loss"]
    row: dict[str, Any] = {
        "study": study,
        "run_id": record.run_id,
        "series": series[record.run_id],
        "workload": workload,
        "strategy": spec.strategy,
        "devices": spec.devices,
        "global_batch": spec.global_batch,
        "repeat": record.repeat,
        "status": record.status,
        "unit": "tokens/s" if text else "samples/s",
        "epoch_work": record.epoch_tokens if text else record.epoch_samples,
        "peak_rss_gib": _max(record.peak_rss_gib),
        "peak_allocated_gib": _max(record.peak_allocated_gib),
        "peak_reserved_gib": _max(record.peak_reserved_gib),
        "parameters": record.parameters,
        "trainable_parameters": record.trainable_parameters,
        "loss_first": losses[0] if losses.size else None,
        "loss_last": losses[-1] if losses.size else None,
        "idle": record.idle_check.idle,
        "busy_cores": record.idle_check.busy_cores,
        "lock_wait_s": record.lock_wait_s,
        "attempts": record.attempts,
        "elapsed_s": record.elapsed_s,
        "started_at": record.started_at,
        "measure_version": spec.measure_version,
        "faults": ", ".join(sorted(record.faults)),
    }
    if record.error:
        row |= {"error_rank": record.error.rank, "error": record.error.message, "log": record.error.log}
    if record.environment:
        names = ("host", "device_model", "driver", "power_limit_w", "torch_version", "measure_sources")
        row |= {name: getattr(record.environment, name) for name in names}
    # A run that is not timed (more ranks than devices) has losses and no times anywhere.
    if spec.timed and not record.faults and (measured := window(run)) is not None:
        row |= _times(run, measured.dropped) | {
            "step_time_ms": float(np.median(measured.step_s)) * 1e3,
            "step_time_ms_p10": float(np.quantile(measured.step_s, 0.1)) * 1e3,
            "step_time_ms_p90": float(np.quantile(measured.step_s, 0.9)) * 1e3,
            "throughput": measured.work / measured.seconds,
            "window_s": measured.seconds,
            "window_s_se": measured.seconds_se(f"{record.run_id}/{record.repeat}"),
            "window_work": measured.work,
            "warmup_dropped": measured.dropped,
            "stationary": measured.stationary,
        }
    return row


def _times(run: Run, dropped: int) -> dict[str, float]:
    """Shares of the step time: waiting for data and for gradients (mean over ranks), and the slowest rank's excess."""
    step_s = run.steps["step_s"][:, dropped:]
    own = own_step_s(step_s, run.steps["sync_wait_s"][:, dropped:]).sum(axis=1)
    return {
        "data_wait_share": float(run.steps["data_wait_s"][:, dropped:].sum() / step_s.sum()),
        "sync_wait_share": float(run.steps["sync_wait_s"][:, dropped:].sum() / step_s.sum()),
        "slowest_rank_excess": float(own.max() / own.mean() - 1),
    }


def _max(values: list[float]) -> float | None:
    return max(values, default=None)


def equivalence_table(study: str, runs: list[Run]) -> pd.DataFrame:
    """The first losses of every run against the one-device run of the same work: the same seed must give the same."""
    rows = []
    references = {
        _same_work(run): run for run in reversed(runs) if run.record.spec.strategy == "single" and _losses(run).size
    }
    for run in runs:
        spec = run.record.spec
        reference = references.get(_same_work(run))
        if run.record.repeat != 1 or spec.strategy == "single":
            continue
        row: dict[str, Any] = {
            "study": study, "run_id": run.record.run_id, "strategy": spec.strategy, "devices": spec.devices, "note": "",
        }  # fmt: skip
        if reference is None:
            row["note"] = "no single-device run of the same batch to compare with"
        elif not _losses(run).size:
            row["note"] = f"no losses: {run.record.status}"
        else:
            pair = [_losses(reference), _losses(run)]
            updates = min(map(len, pair))
            row |= {
                "reference_run_id": reference.record.run_id,
                "updates": updates,
                "max_abs_loss_difference": float(np.abs(pair[0][:updates] - pair[1][:updates]).max()),
            }
            row["note"] = _differs_by_design(spec)
        rows.append(row)
    return pd.DataFrame(rows, columns=EQUIVALENCE_COLUMNS)


def _differs_by_design(spec: Spec) -> str:
    """What of a workload makes its losses depend on how many devices share the batch."""
    config = spec.workload.config
    if spec.workload.model != "mobilenet_v2" or spec.devices == 1:
        return ""
    reasons = []
    if config.get("norm", "batch") == "batch":
        reasons.append("batch normalisation sees each device's own batch")
    if config.get("classifier_dropout_prob") != 0:
        reasons.append("dropout draws on each device")
    return f"{' and '.join(reasons)}: losses differ by design" if reasons else ""


def _losses(run: Run) -> Any:
    return run.steps["loss"][:COMPARED]


def _same_work(run: Run) -> tuple[Any, ...]:
    spec = run.record.spec
    return (repr(spec.workload), spec.global_batch, spec.optimizer, spec.learning_rate, spec.precision, spec.seed)
