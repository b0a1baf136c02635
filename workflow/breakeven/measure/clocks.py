"""Stamps between updates, read after the last: nothing waits for the device inside the measured window."""

import time
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Clock(Protocol):
    def stamp(self) -> None:
        """Marks the end of one update, which is the beginning of the next."""

    def intervals_s(self) -> NDArray[np.float64]:
        """Seconds between stamps, shape (stamps - 1,)."""


class HostClock:
    """For a device that computes while the host waits."""

    def __init__(self) -> None:
        self._stamps: list[float] = []

    def stamp(self) -> None:
        self._stamps.append(time.perf_counter())

    def intervals_s(self) -> NDArray[np.float64]:
        return np.diff(np.array(self._stamps))


class CudaClock:
    """Events on the device's own stream. The host runs ahead of it as in any training."""

    def __init__(self, stamps: int) -> None:
        import torch

        self._events: list[Any] = [torch.cuda.Event(enable_timing=True) for _ in range(stamps)]
        self._next = 0

    def stamp(self) -> None:
        self._events[self._next].record()
        self._next += 1

    def intervals_s(self) -> NDArray[np.float64]:
        import torch

        torch.cuda.synchronize()
        pairs = zip(self._events, self._events[1:], strict=False)
        return np.array([begin.elapsed_time(end) for begin, end in pairs]) / 1e3


def clock_for(device_kind: str, updates: int) -> Clock:
    return CudaClock(updates + 1) if device_kind == "cuda" else HostClock()
