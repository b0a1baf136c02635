"""A spec is one cell of a sweep: all that identifies a run, and nothing that does not (names, comments, limits)."""

import dataclasses
import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any, Literal

from breakeven.schema.catalog import DATASETS, data_objective
from breakeven.schema.degrees import resolve
from breakeven.schema.measure_version import MEASURE_VERSION
from breakeven.schema.strategies import find_strategy

DeviceKind = Literal["cpu", "cuda"]
Precision = Literal["fp64", "fp32", "tf32", "fp16", "bf16"]
Optimizer = Literal["sgd", "adamw"]
LearningRateRule = Literal["constant", "linear", "sqrt"]
MemoryFormat = Literal["contiguous", "channels_last"]
ResizeOn = Literal["device", "host"]
Sampling = Literal["distributed", "replicated"]
Control = Literal["", "no_sync", "no_update"]
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource:
    """What is trained on. A bundled data set is pinned by its name, the user's own by ``sha256``, a hub's by its
    ``revision``."""

    name: str
    """A bundled data set (``schema.catalog.DATASETS``) or a source of others (``schema.catalog.OWN_DATA``)."""
    sha256: str | None = None
    """Of a JSONL file, or of the names and sizes of an image folder's files."""
    hub: str | None = None
    """A data set's id on the hub (``org/name``)."""
    revision: str | None = None
    """The commit of a hub's data set."""
    image: str | None = None
    """Its column of images ..."""
    label: str | None = None
    """... and of labels."""
    train: str | None = None
    """The name of the split it is trained on ..."""
    test: str | None = None
    """... and of the one that is held out."""
    samples: int | None = None
    """Images used of each split, at most; None: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A model and its objective."""

    model: str
    """A family built from a config (``schema.catalog.WORKLOADS``), a hub id (``org/name``) or a local model folder."""
    revision: str | None = None
    """The commit of a hub model; for a local folder a digest of what it holds."""
    config: Json = field(default_factory=dict)
    """Overrides of the family's model config, by the model library's own names."""
    technique: str = "full"
    technique_options: Json = field(default_factory=dict)
    data: DataSource
    sequence_length: int | None = None
    """Tokens per sample after padding or truncation; language models only."""
    image_size: int | None = None
    """Pixels per side after resizing; image models only."""
    trust_remote_code: bool = False

    def to_dict(self) -> Json:
        return {name: getattr(self, name) for name in self.__slots__} | {"data": dataclasses.asdict(self.data)}

    @classmethod
    def from_dict(cls, raw: Json) -> "Workload":
        return cls(**{**raw, "data": DataSource(**raw["data"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """One cell of the sweep. Equal specs are the same run, whichever study asks for it."""

    workload: Workload
    strategy: str
    """A file of ``breakeven/strategies``, or a product of some: ``fsdp*tp``."""
    strategy_options: Json = field(default_factory=dict)
    degrees: dict[str, int] = field(default_factory=dict)
    """Ranks along each axis of the strategy, but for the one that follows from the device count."""
    device_kind: DeviceKind
    device_model: str
    devices: int
    devices_per_node: int
    global_batch: int
    """Samples per optimiser update, over all devices."""
    sampling: Sampling = "distributed"
    """Whether each rank reads its own part of a global batch, or all read the same (as without a distributed sampler),
    so that one rank's samples alone count as work."""
    gradient_accumulation: int = 1
    """Parts of a rank's batch that are run one after the other before gradients are exchanged."""
    precision: Precision = "fp32"
    """``fp64``, ``fp32`` and ``tf32`` compute in that type; ``fp16`` and ``bf16`` by autocast over fp32 weights."""
    optimizer: Optimizer = "adamw"
    learning_rate: float = 1e-3
    """At ``learning_rate_batch`` samples per update."""
    learning_rate_rule: LearningRateRule = "constant"
    """How it follows the global batch: not, in proportion, or by the square root."""
    learning_rate_batch: int | None = None
    """Needed by every rule but ``constant``."""
    activation_checkpointing: bool = False
    compile: bool = False
    memory_format: MemoryFormat = "contiguous"
    """NCHW or NHWC; image models alone."""
    workers: int = 0
    """Processes of each rank that load data; 0: the rank itself."""
    prefetch_factor: int = 2
    """Batches that each worker keeps ready."""
    persistent_workers: bool = False
    """Workers outlive an epoch."""
    pin_memory: bool = False
    non_blocking: bool = False
    resize_on: ResizeOn = "device"
    """Where small images are made large: after the copy to the device, or by whoever loads them."""
    synthetic: bool = False
    """The same few batches, already on the device: what remains is the device's own time."""
    updates: int = 40
    """Optimiser updates run, warm-up included."""
    min_warmup: int = 10
    """Updates dropped at least before the measured window."""
    evaluate_every: int = 0
    """Updates between evaluations on held-out data, outside the measured time; 0: never."""
    seed: int = 0
    timed: bool = True
    """False where more ranks than devices run (``oversubscribe``): losses count, times do not."""
    control: Control = ""
    """What is deliberately done wrong, so that the comparison of losses is seen to catch it."""
    measure_version: int = MEASURE_VERSION

    @property
    def local_batch(self) -> float:
        """Samples per device and update; a fraction where devices share samples."""
        whole, rest = divmod(self.global_batch, self.devices)
        return self.global_batch / self.devices if rest else whole

    @property
    def nodes(self) -> int:
        return -(-self.devices // self.devices_per_node)

    @property
    def ranks(self) -> int:
        """Processes: one per device, but for a strategy that drives all from one."""
        return 1 if find_strategy(self.strategy).one_process else self.devices

    @property
    def evaluations(self) -> int:
        return self.updates // self.evaluate_every if self.evaluate_every else 0

    @property
    def resolved_degrees(self) -> dict[str, int]:
        """Ranks along every axis of the strategy, outermost first."""
        return resolve(find_strategy(self.strategy).axes, self.devices, self.degrees)

    @property
    def scaled_learning_rate(self) -> float:
        """At this run's global batch."""
        ratio = self.global_batch / (self.learning_rate_batch or self.global_batch)
        power = {"constant": 0.0, "linear": 1.0, "sqrt": 0.5}[self.learning_rate_rule]
        return float(self.learning_rate * ratio**power)

    def to_dict(self) -> Json:
        """Without copies: dataclasses.asdict takes five times as long, and a plan has thousands."""
        return {name: getattr(self, name) for name in self.__slots__} | {"workload": self.workload.to_dict()}

    def to_json(self) -> str:
        """Canonical JSON: sorted keys, no spaces, so that equal specs are equal text."""
        return canonical_json(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> "Spec":
        return cls.from_dict(json.loads(text))

    @classmethod
    def from_dict(cls, raw: Json) -> "Spec":
        return cls(**{**raw, "workload": Workload.from_dict(raw["workload"])})


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def canonical_json(value: Any) -> str:
    return _CANONICAL.encode(value)


def digest(value: Any, length: int = 8) -> str:
    """The first hex digits of the sha256 of a value's canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:length]


def slug(text: str) -> str:
    """A file-name-safe form of at most 60 characters: letters, digits, ``_`` and single ``-``; may be empty."""
    safe = re.sub(r"-+", "-", re.sub(r"[^A-Za-z0-9_]+", "-", text)).strip("-").lower()
    return safe if len(safe) <= 60 else f"{safe[:51]}-{digest(text)}"


def run_id(spec: Spec) -> str:
    """A readable name plus 8 hex digits of what identifies the run, for example ``llama-lora-ddp-n2-b16-1f0c9a3e``."""
    name = spec.workload.model.rstrip("/").rsplit("/", 1)[-1]
    technique = [] if spec.workload.technique == "full" else [spec.workload.technique]
    readable = "-".join([name, *technique, spec.strategy, f"n{spec.devices}", f"b{spec.global_batch}"])
    return f"{slug(readable)}-{digest(spec.to_dict())}"


def data_part(workload: Workload) -> Workload:
    """A workload with nothing left in it but what prepared data depend on.

    Images depend on no model, and on a size only where they are made at it. For text, a model built from a config gets
    a tokenizer trained on the data, of the config's vocabulary size; a model with weights brings its own.
    """
    dataset = DATASETS.get(workload.data.name)
    text = data_objective(workload.data.name) == "causal-lm"
    vocabulary = {key: value for key, value in workload.config.items() if key == "vocab_size"}
    return Workload(
        model=workload.model if text else "",
        revision=workload.revision if text else None,
        config=vocabulary if text else {},
        data=workload.data,
        image_size=workload.image_size if dataset and dataset.sized else None,
        trust_remote_code=workload.trust_remote_code if text else False,
    )


def data_id(workload: Workload) -> str:
    """The name of the prepared data a workload reads: what changes the prepared bytes is in its digest."""
    what = dataclasses.asdict(data_part(workload)) | {"measure_version": MEASURE_VERSION}
    name = (workload.data.hub or workload.data.name).rsplit("/", 1)[-1]
    return f"{slug(name)}-{digest(what)}"


def images_id(data: DataSource) -> str:
    """The name of the folder that a hub's images are fetched into."""
    return f"{slug(data.hub or '')}-{digest(dataclasses.asdict(data))}"
