"""``equivalence.csv`` of a study: the first losses of its runs against one device's on the same samples.

Where the two may differ, the table says why: what is compared here are the study's own runs, with their own models and
options. The proof that every strategy does one device's work, with a tolerance, is ``snakemake equivalence``.
"""

import math
from typing import Any

import numpy as np
import pandas as pd

from breakeven.records.load import Run
from breakeven.schema.spec import Spec
from breakeven.schema.strategies import find_strategy

EQUIVALENCE_COLUMNS = [
    "study", "run_id", "strategy", "devices", "reference_run_id", "updates", "max_abs_loss_difference", "note",
]  # fmt: skip
#: Updates whose losses are compared: enough to show a wrong gradient, few enough that rounding has not grown.
COMPARED = 5
#: Dropout of each image family: the config key, and what its model library has it at.
_DROPOUT = {
    "mobilenet_v2": {"classifier_dropout_prob": 0.8},
    "vit": {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
    "llama": {"attention_dropout": 0.0},
}
#: Families whose norms see a batch's own statistics unless ``norm: group`` is asked for.
_BATCH_NORM = frozenset({"mobilenet_v2", "resnet"})


def equivalence_table(study: str, runs: list[Run]) -> pd.DataFrame:
    """A row for the first repeat of every run but the references themselves, whatever its status."""
    first = [run for run in runs if run.record.repeat == 1]
    singles = [run for run in first if run.record.spec.strategy == "single" and _losses(run).size]
    rows = [_row(study, run, _reference(run, singles)) for run in first]
    return pd.DataFrame([row for row in rows if row is not None], columns=EQUIVALENCE_COLUMNS)


def _reference(run: Run, singles: list[Run]) -> Run | None:
    """The first planned run of one device on the same samples: in the same precision if there is one, and of one
    device itself in the weights' own."""
    spec = run.record.spec
    precision = "fp32" if spec.strategy == "single" else spec.precision
    alike = [one for one in singles if _same_work(one.record.spec) == _same_work(spec)]
    exact = [one for one in alike if one.record.spec.precision == precision]
    return next(iter([*exact, *alike]), None)


def _row(study: str, run: Run, reference: Run | None) -> dict[str, Any] | None:
    spec = run.record.spec
    if reference is not None and reference.record.run_id == run.record.run_id:
        return None
    row: dict[str, Any] = {
        "study": study, "run_id": run.record.run_id, "strategy": spec.strategy, "devices": spec.devices, "note": "",
    }  # fmt: skip
    if not _losses(run).size:
        return row | {"note": f"no losses: {run.record.status}"}
    if reference is None:
        return row | {"note": _joined(["no single-device run of the same samples to compare with", _unique(spec)])}
    pair = [_losses(reference), _losses(run)]
    updates = min(map(len, pair))
    return row | {
        "reference_run_id": reference.record.run_id,
        "updates": updates,
        "max_abs_loss_difference": float(np.abs(pair[0][:updates] - pair[1][:updates]).max()),
        "note": _joined([_unique(spec), *_by_design(spec, reference.record.spec)]),
    }


def _same_work(spec: Spec) -> tuple[Any, ...]:
    """What must be equal for the losses to be. Of how the work is split or sped up nothing is in it."""
    return (
        repr(spec.workload), _samples(spec), spec.optimizer, spec.scaled_learning_rate, spec.synthetic, spec.seed,
        spec.control,
    )  # fmt: skip


def _samples(spec: Spec) -> int:
    """Different samples in an update: where all ranks read the same, one rank's alone."""
    return spec.global_batch // _batch_parts(spec) if spec.sampling == "replicated" else spec.global_batch


def _batch_parts(spec: Spec) -> int:
    """Into how many parts the data axes cut a global batch."""
    degrees = spec.resolved_degrees
    return math.prod(degrees.get(axis, 1) for axis in ("replicate", "shard"))


def _unique(spec: Spec) -> str:
    if spec.sampling != "replicated" or _batch_parts(spec) == 1:
        return ""
    return f"every rank reads the same {_samples(spec)} samples: {spec.global_batch} read, {_samples(spec)} counted"


def _by_design(spec: Spec, reference: Spec) -> list[str]:
    """Why losses may differ though nothing is wrong."""
    reasons = []
    if spec.precision != reference.precision:
        reasons.append(f"{spec.precision} rounds otherwise than {reference.precision}")
    if (spec.memory_format, spec.compile) != (reference.memory_format, reference.compile):
        # MobileNetV2 with batch norm: 0.02 in the second loss of fp32, 8e-15 in that of fp64
        reasons.append("other kernels round otherwise")
    if options := _lossy(spec):
        reasons.append(options)
    # a pipeline passes its batch in parts on one device too
    split = spec.devices > 1 or spec.gradient_accumulation > 1 or spec.strategy_options.get("micro_batches", 1) > 1
    model, config = spec.workload.model, spec.workload.config
    if split and model in _BATCH_NORM and config.get("norm", "batch") == "batch":
        reasons.append("batch normalisation sees each part of the batch on its own")
    if (split or spec.compile) and any(config.get(key, usual) for key, usual in _DROPOUT.get(model, {}).items()):
        reasons.append("dropout draws anew for each part of the batch" if split else "dropout draws otherwise")
    return [f"{' and '.join(reasons)}: losses differ by design"] if reasons else []


def _lossy(spec: Spec) -> str:
    """An option under which the strategy's own check allows more than rounding, in that check's words."""
    checks = [check for factor in find_strategy(spec.strategy).factors for check in factor.checks]
    for check in checks:
        asked = check.options.items()
        if asked and check.tolerance > 1e-5 and all(spec.strategy_options.get(key) == value for key, value in asked):
            return check.note or f"{' '.join(f'{key} {value}' for key, value in asked)} is not exact"
    return ""


def _joined(parts: list[str]) -> str:
    return "; ".join(part for part in parts if part)


def _losses(run: Run) -> Any:
    return run.steps["loss"][:COMPARED]
