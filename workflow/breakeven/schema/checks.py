"""Which runs show that every strategy does one device's work: models, rows and references, as data.

A row is a run of a strategy held against a run of ``single`` on the same samples. What a strategy is checked with
stands in its own ``META.checks``; the models, and the runs that are wrong on purpose, stand here.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from breakeven.schema.degrees import normal
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Control, DataSource, DeviceKind, Spec, Workload
from breakeven.schema.strategies import find_strategy, known_strategies, strategy_meta
from breakeven.schema.strategy import Check
from breakeven.schema.support import refused

#: Small enough for a few updates in a second on one core; without dropout and batch statistics, which depend on how a
#: batch is split.
WORKLOADS: dict[str, Workload] = {
    "llama": Workload(
        model="llama",
        config={
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "vocab_size": 512,
        },
        data=DataSource(name="chat-en"),
        sequence_length=48,
    ),
    "vit": Workload(
        model="vit",
        config={
            "hidden_size": 64,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "intermediate_size": 128,
            "patch_size": 8,
        },
        data=DataSource(name="digits"),
        image_size=32,
    ),
    "resnet": Workload(
        model="resnet",
        config={
            "norm": "group",
            "embedding_size": 16,
            "hidden_sizes": [16, 32, 32, 64],
            "depths": [1, 1, 1, 1],
            "layer_type": "basic",
        },
        data=DataSource(name="digits"),
        image_size=32,
    ),
    "mobilenet_v2": Workload(
        model="mobilenet_v2",
        # Drawn with a deviation of 0.02, the weights leave variances far below the usual epsilon of 0.001, and a norm
        # of few values then turns rounding into loss: one device that sums its batch in four parts differed by 8.6e-3,
        # with this epsilon by 2.4e-7.
        config={
            "depth_multiplier": 0.35,
            "norm": "group",
            "classifier_dropout_prob": 0.0,
            "layer_norm_eps": 0.01,
        },
        data=DataSource(name="digits"),
        image_size=32,
    ),
}
WORKLOADS["llama-lora"] = replace(WORKLOADS["llama"], technique="lora", technique_options={"rank": 4})

GLOBAL_BATCH = 16
#: As large as leaves rounding where it is: a wrong gradient must show in a few updates.
LEARNING_RATES = {"llama": 0.05, "llama-lora": 0.05, "vit": 0.02, "resnet": 0.01, "mobilenet_v2": 0.05}
ADAMW_LEARNING_RATE = 1e-3
#: A loss is taken before its update: the sixth is of weights updated five times.
UPDATES = 6

#: A run that is wrong on purpose must differ by this much, else the comparison could not catch a wrong one.
CONTROL_DIFFERENCE = 1e-3

#: What is wrong, shown on an image and on a language model.
CONTROLS: tuple[tuple[Control, str], ...] = (
    ("no_sync", "llama"),
    ("no_sync", "mobilenet_v2"),
    ("no_update", "llama"),
    ("no_update", "mobilenet_v2"),
)
_CONTROLLED = "ddp"

#: AdamW divides by the gradient's own size, so that rounding alone moves the losses of a model apart. How far is shown
#: by one device that sums its gradients in this many parts, and a strategy may differ by a few times that.
BAND_PARTS = 4
BAND_FACTOR = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the equivalence table, planned."""

    workload: str
    """A name of ``WORKLOADS``."""
    check: Check
    spec: Spec
    reference: Spec
    """One device with the same samples in every update."""
    band: Spec | None = None
    """One device too, with what rounding does; None where the tolerance alone decides."""
    present: int
    """Devices of the machine."""

    @property
    def not_run(self) -> str:
        """Why there is no run of it; empty where there is. CPU cores may be fewer than ranks: no time is asked."""
        if self.spec.device_kind == "cpu" or self.spec.devices <= self.present:
            return ""
        return f"needs {self.spec.devices} devices, here {'is' if self.present == 1 else 'are'} {self.present}"

    @property
    def specs(self) -> list[Spec]:
        """Every run it needs."""
        return [] if self.not_run else [self.spec, self.reference, *([self.band] if self.band else [])]


def rows(kind: DeviceKind, model: str, devices: int) -> list[Row]:
    """Every row, for a machine with so many devices of a model. Raises UserError for a check that cannot be."""
    asked = [
        (name, check, workload)
        for name in known_strategies()
        for check in strategy_meta(name).checks
        for workload in check.workloads
    ]
    asked += [(_CONTROLLED, control_check(control, workload), workload) for control, workload in CONTROLS]
    found: dict[str, Row] = {}
    for name, check, workload in asked:
        try:
            row = _row(name, check, workload, kind=kind, model=model, present=devices)
            if reason := refused(row.spec):
                raise ValueError(reason)
        except (TypeError, ValueError, KeyError, UserError) as error:
            what = f"unknown workload {error}" if isinstance(error, KeyError) else str(error)
            raise UserError(f"strategies/{name}.py: {check}: {what}.") from None
        found.setdefault(row.spec.to_json(), row)
    return list(found.values())


def control_check(control: Control, workload: str) -> Check:
    return Check(devices=2, workloads=(workload,), settings={"control": control}, tolerance=CONTROL_DIFFERENCE)


def _row(name: str, check: Check, workload: str, *, kind: DeviceKind, model: str, present: int) -> Row:
    product = find_strategy("*".join(filter(None, (name, check.product))))
    adamw = check.settings.get("optimizer") == "adamw"
    settings: dict[str, Any] = {
        "global_batch": GLOBAL_BATCH,
        "optimizer": "sgd",
        "learning_rate": ADAMW_LEARNING_RATE if adamw else LEARNING_RATES[workload],
        "updates": UPDATES,
        **check.settings,
    }
    spec = Spec(
        workload=WORKLOADS[workload],
        strategy=product.name,
        strategy_options=check.options,
        degrees=normal(product.axes, check.devices, check.degrees),
        device_kind=kind,
        device_model=model,
        devices=check.devices,
        devices_per_node=max(check.devices, present),
        min_warmup=1,
        timed=kind != "cpu" or check.devices <= present,
        **settings,
    )
    reference = replace(reference_of(spec), devices_per_node=present)
    banded = adamw and not spec.control and product.name != "single"
    band = replace(reference, gradient_accumulation=BAND_PARTS) if banded else None
    return Row(workload=workload, check=check, spec=spec, reference=reference, band=band, present=present)


def reference_of(spec: Spec) -> Spec:
    """The run of one device that a run must equal: nothing of how it is split or sped up is left.

    Where every rank reads the same samples, one device reads those. A low precision is compared with itself, and on one
    device with the weights' own.
    """
    degrees = spec.resolved_degrees
    data_ranks = math.prod(degrees.get(axis, 1) for axis in ("replicate", "shard"))
    return Spec(
        workload=spec.workload,
        strategy="single",
        device_kind=spec.device_kind,
        device_model=spec.device_model,
        devices=1,
        devices_per_node=spec.devices_per_node,
        global_batch=spec.global_batch // (data_ranks if spec.sampling == "replicated" else 1),
        precision="fp32" if spec.strategy == "single" else spec.precision,
        optimizer=spec.optimizer,
        learning_rate=spec.learning_rate,
        updates=spec.updates,
        min_warmup=spec.min_warmup,
        seed=spec.seed,
    )
