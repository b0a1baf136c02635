"""What a run leaves behind: raw facts only, so that re-analysis never needs a GPU. Per-step arrays lie beside it."""

import dataclasses
import json
from dataclasses import dataclass, field

from breakeven.schema.spec import Json, Spec
from breakeven.schema.status import Status

RECORD_SCHEMA_VERSION = 2

#: Arrays in ``steps.npz``. R ranks, U updates; all empty along U where a run ended before its first update.
STEP_ARRAYS = {
    "step_s": "(R, U) seconds from the end of one update to the end of the next, data wait and all waiting included",
    "data_wait_s": "(R, U) seconds of each step spent waiting for the batch",
    "sync_wait_s": "(R, U) seconds of each step spent in gradient synchronisation not hidden by compute; NaN: unknown",
    "device_s": "(R, U) seconds of each step from its first kernel to its last, on the device's own clock; NaN on CPU",
    "loss": "(U,) mean training loss of the global batch, before the update",
    "samples": "(U,) samples in the global batch; where all ranks read the same, one rank's",
    "tokens_padded": "(U,) tokens in the global batch, padding included; 0 for images",
    "tokens": "(U,) tokens without padding; 0 for images",
    "tokens_loss": "(U,) tokens that bear loss; 0 for images",
    "evaluated_at": "(E,) updates made before each evaluation",
    "accuracy": "(E,) share of held-out samples classified rightly, at each evaluation",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunError:
    """Why a run did not end ``ok``: the first rank that failed, and the last line of its exception."""

    rank: int | None
    message: str
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Where and with what a run was measured. Fields that split a series are typed; the rest lies in ``details``."""

    host: str
    device_model: str
    driver: str | None
    power_limit_w: float | None
    torch_version: str
    measure_sources: str
    """Digest of the measured rooms' source files."""
    details: Json = field(default_factory=dict)
    """Library versions, Python, kernel, environment variables that matter, accelerators' ids, git state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleCheck:
    """How busy the machine was just before the ranks started, by others than this run."""

    busy_cores: float
    load_average_1min: float
    device_processes: int | None
    """Processes on the accelerators; None where there are none or it cannot be read."""
    idle: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StateBytes:
    """Bytes per rank of parameters, gradients and optimiser moments, once an update has been made."""

    parameters: list[int] = field(default_factory=list)
    gradients: list[int] = field(default_factory=list)
    optimizer: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    run_id: str
    repeat: int
    status: Status
    spec: Spec
    started_at: str
    """ISO 8601, UTC."""
    elapsed_s: float
    """Wall seconds of the whole run, start-up included."""
    rank_start_s: float | None
    """Seconds from launch to the first update, the slowest rank's; None where no rank got so far."""
    epoch_samples: int | None
    """Samples in the training split: one pass over the data."""
    epoch_tokens: int | None
    """Non-padding tokens in the training split; None for images."""
    peak_rss_gib: list[float]
    """Per rank, host memory."""
    peak_allocated_gib: list[float]
    """Per rank, device memory in tensors; empty on CPU."""
    peak_reserved_gib: list[float]
    """Per rank, device memory held by the allocator (what runs out); empty on CPU."""
    parameters: int | None
    trainable_parameters: int | None
    state_bytes: StateBytes
    """As measured on each rank; empty where the run did not end."""
    expected_state_bytes: StateBytes
    """As the strategy's formula has it."""
    environment: Environment | None
    idle_check: IdleCheck
    lock_wait_s: float
    """Seconds waited for another measured run on this host."""
    attempts: int
    """How many times this run was started, this time included."""
    start: Json = field(default_factory=dict)
    """How the ranks were started: ``by`` (``torchrun`` or ``fork``), and of a fork server its ``generation`` and how
    many runs it had served."""
    faults: Json = field(default_factory=dict)
    """Faults injected by a test; a record with any is never a point."""
    error: RunError | None = None
    schema_version: int = RECORD_SCHEMA_VERSION

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Record":
        """Raises ValueError on a schema version this code does not know."""
        raw = json.loads(text)
        version = raw.get("schema_version")
        if version != RECORD_SCHEMA_VERSION:
            raise ValueError(f"record schema version {version!r}, expected {RECORD_SCHEMA_VERSION}")
        raw["status"] = Status(raw["status"])
        raw["spec"] = Spec.from_dict(raw["spec"])
        raw["environment"] = Environment(**raw["environment"]) if raw["environment"] else None
        raw["state_bytes"] = StateBytes(**raw["state_bytes"])
        raw["expected_state_bytes"] = StateBytes(**raw["expected_state_bytes"])
        raw["idle_check"] = IdleCheck(**raw["idle_check"])
        raw["error"] = RunError(**raw["error"]) if raw["error"] else None
        return cls(**raw)
