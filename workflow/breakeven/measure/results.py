"""From what every rank gathered to the arrays of ``schema.record.STEP_ARRAYS`` and the facts of the record."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from breakeven.datasets.batches import Work
from breakeven.measure.job import Notes
from breakeven.strategies.state import State

Arrays = dict[str, NDArray[Any]]


def write_results(notes: Notes, ranks: list[dict[str, Any]], work: list[Work]) -> None:
    """On rank 0, after the window. ``ranks`` holds each rank's timeline and memory, in rank order."""
    timelines = [rank["timeline"] for rank in ranks]
    loss = np.mean([timeline.loss for timeline in timelines if timeline.loss is not None], axis=0)
    accuracy = ranks[0]["accuracy"]
    arrays: Arrays = {
        "step_s": np.stack([timeline.step_s for timeline in timelines]),
        "data_wait_s": np.stack([timeline.data_wait_s for timeline in timelines]),
        "sync_wait_s": np.stack([timeline.sync_wait_s for timeline in timelines]),
        "device_s": np.stack([timeline.device_s for timeline in timelines]),
        "loss": loss,
        "samples": np.array([one.samples for one in work]),
        "tokens_padded": np.array([one.tokens_padded for one in work]),
        "tokens": np.array([one.tokens for one in work]),
        "tokens_loss": np.array([one.tokens_loss for one in work]),
        "evaluated_at": np.array(list(accuracy), dtype=np.int64),
        "accuracy": np.array(list(accuracy.values()), dtype=np.float64),
    }
    write_steps(notes.steps, arrays)

    def per_rank(name: str) -> list[Any]:
        return [rank[name] for rank in ranks if rank[name] is not None]

    result = {
        "first_not_finite": int(np.argmin(np.isfinite(loss))) if not np.isfinite(loss).all() else None,
        "rank_start_s": max(per_rank("rank_start_s")),
        "peak_rss_gib": per_rank("peak_rss_gib"),
        "peak_allocated_gib": per_rank("peak_allocated_gib"),
        "peak_reserved_gib": per_rank("peak_reserved_gib"),
        "state_bytes": _state([rank["state"] for rank in ranks]),
        "expected_state_bytes": _state([rank["expected_state"] for rank in ranks]),
        "cores": per_rank("cores"),
        "hosts": sorted(set(per_rank("host"))),
    }
    part = notes.result.with_suffix(".part")
    part.write_text(json.dumps(result))
    os.replace(part, notes.result)


def _state(states: list[State]) -> dict[str, list[int]]:
    return {name: [getattr(state, name) for state in states] for name in ("parameters", "gradients", "optimizer")}


def empty_steps(ranks: int) -> Arrays:
    """For a run that ended before its window did: every array is there, with no update in it."""
    per_rank = {name: np.empty((ranks, 0)) for name in ("step_s", "data_wait_s", "sync_wait_s", "device_s")}
    whole = ("samples", "tokens_padded", "tokens", "tokens_loss", "evaluated_at")
    counts = {name: np.empty(0, dtype=np.int64) for name in whole}
    return {**per_rank, "loss": np.empty(0), "accuracy": np.empty(0), **counts}


def write_steps(path: Path, arrays: Arrays) -> None:
    with path.open("wb") as stream:
        named: dict[str, Any] = {name: arrays[name] for name in sorted(arrays)}
        np.savez(stream, **named)
        stream.flush()
        os.fsync(stream.fileno())


def median_step_ms(path: Path, min_warmup: int) -> float:
    """For the line on the terminal: the slowest rank's step, the warm-up dropped. The analysis does better."""
    with np.load(path, allow_pickle=False) as arrays:
        slowest = arrays["step_s"].max(axis=0)
    return float(np.median(slowest[min_warmup:] if len(slowest) > min_warmup else slowest)) * 1e3
