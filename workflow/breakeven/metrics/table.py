"""A study's runs as a table: ``runs.csv``, a row per record whatever its status, a column per setting and number."""

import dataclasses
from typing import Any

import numpy as np
import pandas as pd

from breakeven.metrics.run import own_step_s, reached, window
from breakeven.records.load import Run
from breakeven.schema.record import StateBytes
from breakeven.schema.spec import Spec, canonical_json

#: Fields of a spec that say where a run was made, or stand among the other columns under a name of their own.
_ELSEWHERE = frozenset({
    "workload", "strategy", "devices", "global_batch", "device_kind", "device_model", "devices_per_node",
    "measure_version",
})  # fmt: skip
#: One column per setting, named as a user writes it; a field that a spec gets later is a column too.
SETTINGS = [
    "model", "technique", "data", "image_size", "sequence_length", "batch_per_device",
    *(field.name for field in dataclasses.fields(Spec) if field.name not in _ELSEWHERE),
]  # fmt: skip
RUN_COLUMNS = [
    "study", "run_id", "series", "workload", "strategy", "devices", "global_batch", "repeat", "status",
    "step_time_ms", "step_time_ms_p10", "step_time_ms_p90", "throughput", "unit", "window_s", "window_s_se",
    "window_work", "window_steps", "epoch_work", "warmup_dropped", "stationary", "data_wait_share", "sync_wait_share",
    "host_bound_share", "slowest_rank_excess", "peak_rss_gib", "peak_allocated_gib", "peak_reserved_gib", "parameters",
    "trainable_parameters", "parameter_bytes", "gradient_bytes", "optimizer_bytes", "state_bytes_as_expected",
    "loss_first", "loss_last", "accuracy", "accuracy_best", "updates_to_target", "samples_to_target",
    "epochs_to_target", "time_to_target_s", "idle", "busy_cores", "lock_wait_s", "attempts", "error_rank", "error",
    "log", "elapsed_s", "rank_start_s", "launched_by", "server_generation", "started_at", "host", "device_model",
    "driver", "power_limit_w", "torch_version", "measure_version", "measure_sources", "faults", *SETTINGS,
]  # fmt: skip


def runs_table(
    study: str, workload: str, series: dict[str, str], runs: list[Run], target_accuracy: float | None = None
) -> pd.DataFrame:
    """One row per record, whatever its status. ``series`` names each run id's curve."""
    rows = [_row(study, workload, series, run, target_accuracy) for run in runs]
    return pd.DataFrame(rows, columns=RUN_COLUMNS)


def settings(spec: Spec) -> dict[str, Any]:
    """Every setting of a spec by the user's name, degrees as they came out; what holds several is canonical JSON."""
    workload = spec.workload
    values = {name: getattr(spec, name) for name in SETTINGS if hasattr(spec, name)} | {
        "model": workload.model,
        "technique": workload.technique,
        "data": workload.data.name,
        "image_size": workload.image_size,
        "sequence_length": workload.sequence_length,
        "batch_per_device": spec.local_batch,
        "degrees": spec.resolved_degrees,
    }
    return {
        name: (canonical_json(value) if value else "") if isinstance(value, dict) else value
        for name, value in values.items()
    }


def _row(study: str, workload: str, series: dict[str, str], run: Run, target: float | None) -> dict[str, Any]:
    record, spec = run.record, run.record.spec
    text = spec.workload.sequence_length is not None
    losses = run.steps["loss"]
    row: dict[str, Any] = settings(spec) | {
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
        "rank_start_s": record.rank_start_s,
        "launched_by": record.start.get("by", ""),
        "server_generation": record.start.get("generation"),
        "started_at": record.started_at,
        "measure_version": spec.measure_version,
        "faults": ", ".join(sorted(record.faults)),
    }
    row |= _state(record.state_bytes, record.expected_state_bytes) | _accuracy(run, target)
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
            "window_steps": len(measured.step_s),
            "warmup_dropped": measured.dropped,
            "stationary": measured.stationary,
        }
    return row


def _times(run: Run, dropped: int) -> dict[str, float]:
    """Shares of the step time: waiting for data and for gradients, the device having nothing to do (mean over ranks);
    and the slowest rank's excess."""
    step_s = run.steps["step_s"][:, dropped:]
    own = own_step_s(step_s, run.steps["sync_wait_s"][:, dropped:]).sum(axis=1)
    return {
        "data_wait_share": float(run.steps["data_wait_s"][:, dropped:].sum() / step_s.sum()),
        "sync_wait_share": float(run.steps["sync_wait_s"][:, dropped:].sum() / step_s.sum()),
        "host_bound_share": float(1 - run.steps["device_s"][:, dropped:].sum() / step_s.sum()),
        "slowest_rank_excess": float(own.max() / own.mean() - 1),
    }


def _state(measured: StateBytes, expected: StateBytes) -> dict[str, Any]:
    """Of the rank that holds most, and whether every rank holds what the strategy's formula says."""
    return {
        "parameter_bytes": _max(measured.parameters),
        "gradient_bytes": _max(measured.gradients),
        "optimizer_bytes": _max(measured.optimizer),
        "state_bytes_as_expected": measured == expected if measured.parameters and expected.parameters else None,
    }


def _accuracy(run: Run, target: float | None) -> dict[str, Any]:
    accuracy = run.steps["accuracy"]
    if not accuracy.size:
        return {}
    row: dict[str, Any] = {"accuracy": accuracy[-1], "accuracy_best": accuracy.max()}
    updates = reached(run.steps["evaluated_at"], accuracy, target)
    if updates is None:
        return row
    samples = float(run.steps["samples"][:updates].sum())
    return row | {
        "updates_to_target": updates,
        "samples_to_target": samples,
        "epochs_to_target": samples / run.record.epoch_samples if run.record.epoch_samples else None,
        # a run that is not timed, or was made to fail, has no times anywhere
        "time_to_target_s": float(run.steps["step_s"][:, :updates].max(axis=0).sum())
        if run.record.spec.timed and not run.record.faults
        else None,
    }


def _max(values: list[Any]) -> Any:
    return max(values, default=None)
