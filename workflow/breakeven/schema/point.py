"""A point is one row: a series, a number of devices, a repeat, a time, and the work done in it.

Whatever makes points knows nothing of scaling; whatever analyses points knows nothing of where they came from.
"""

import dataclasses
from dataclasses import dataclass
from typing import Literal

from breakeven.schema.status import Status

Scaling = Literal["weak", "strong", "free"]
Aggregate = Literal["rate", "olympic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The columns of ``points.csv``, in order. Empty cells are unknown, never zero."""

    study: str
    workload: str
    series: str
    """What is held fixed: points of one series may be compared with each other."""
    scaling: Scaling
    """weak: fixed batch per device; strong: fixed global batch; free: the batch chosen per size."""
    device: str
    """The word for one device in tables and answers: ``H100-SXM``, ``CPU core``."""
    devices: int
    nodes: int
    repeat: int
    status: Status
    time_s: float | None
    """Seconds the work took: the measured window, or the whole run to its target."""
    samples: float | None
    """Work done in that time, in ``unit``; for a run to a target, samples until it was reached."""
    time_s_se: float | None = None
    """Standard error of ``time_s`` within the run (moving-block bootstrap over its steps); empty: unknown."""
    unit: str = "samples"
    target_work: float | None = None
    """Work that ``efficiency.csv`` quotes a time for (one epoch, say); empty: the smallest size's mean work."""
    aggregate: Aggregate = "rate"
    """rate: every repeat counts as the same work, n / sum(time / work); olympic: fastest and slowest runs dropped."""
    runs_dropped: int = 1
    """Of an olympic mean: how many of the fastest and, again, of the slowest runs do not count."""
    time_factor: float = 1.0
    """Multiplies the aggregated time (MLPerf's reference-convergence scaling)."""
    global_batch: float | None = None
    step_rate: float | None = None
    """Work per second of all devices while they train, as the run itself reports it, without evaluation or start-up."""
    step_rate_note: str = ""
    """Why ``step_rate`` is unknown."""
    training_share: float | None = None
    """Share of ``time_s`` spent training: 1 - (evaluation + start-up) / time."""
    time_quantum_s: float | None = None
    """Seconds between two looks at the target: a run that reached it may have done so up to this much earlier."""
    reference_samples: float | None = None
    """Work that the benchmark's reference needs to the target with this batch."""
    energy_kj: float | None = None
    price_per_device_hour: float | None = None
    headline: bool = True
    """Whether the answer is drawn from this series; others are context."""
    label: str = ""
    """Whose configuration: submitter and system, or the run id."""
    device_model: str = ""
    driver: str = ""
    torch_version: str = ""
    power_limit_w: float | None = None
    source: str = ""
    """Where the row comes from: a record, a log, a line of a user's table."""


POINT_COLUMNS = [f.name for f in dataclasses.fields(Point)]

#: Facts that must not differ inside one series: a curve over a mixture of them shows the mixture, not the scaling.
HOMOGENEOUS = ("device_model", "driver", "torch_version", "power_limit_w")
