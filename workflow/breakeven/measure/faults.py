"""Faults injected by tests, through the environment variable BREAKEVEN_FAULT; without it nothing here does anything.

Every fault is recorded, and a record with any is never a point.
"""

import json
import os
import signal
import time
from dataclasses import dataclass, replace
from typing import Any

from breakeven.schema.spec import Json

VARIABLE = "BREAKEVEN_FAULT"


def injected() -> Json:
    """As the variable says, for the record; empty without it."""
    faults: Json = json.loads(os.environ.get(VARIABLE) or "{}")
    return faults


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    rank: int | None = None
    """Who has them; None: every rank."""
    sleep_s: float = 0.0
    """Before each forward pass, from ``from_update`` on."""
    from_update: int = 0
    raise_at: int | None = None
    message: str = "injected"
    oom_at: int | None = None
    fill_at: int | None = None
    """Take memory, and write to it, until there is no more."""
    kill_at: int | None = None
    no_sync: bool = False
    """Gradients stay each rank's own: what a broken strategy would do."""
    no_update: bool = False
    """Weights stay as they were."""

    @classmethod
    def of_rank(cls, rank: int, control: str = "") -> "Faults":
        """``control`` is the spec's own: a run that is wrong on purpose."""
        faults = cls(**injected())
        mine = faults if faults.rank in (None, rank) else cls()
        return replace(
            mine, no_sync=mine.no_sync or control == "no_sync", no_update=mine.no_update or control == "no_update"
        )

    def before_forward(self, update: int) -> None:
        if self.sleep_s and update >= self.from_update:
            time.sleep(self.sleep_s)
        if update == self.raise_at:
            raise RuntimeError(self.message)
        if update == self.oom_at:
            raise MemoryError(self.message)
        if update == self.fill_at:
            fill_memory()
        if update == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def step(self, optimizer: Any) -> None:
        if not self.no_update:
            optimizer.step()


def fill_memory() -> None:
    """The device's, on CPU the host's."""
    import torch

    device = "cuda" if torch.cuda.is_initialized() else "cpu"
    taken = []
    while True:
        taken.append(torch.ones(1 << 23, device=device))  # 32 MiB
