"""Stamps between updates, read after the last: nothing waits for the device inside the measured window."""

import time
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]


class Clock(Protocol):
    def stamp(self) -> None:
        """Marks the end of one update, which is the beginning of the next; the first mark and one after ``pause`` are a
        beginning alone."""

    def begin(self) -> None:
        """Marks that an update's batch is there: what follows is the device's."""

    def pause(self) -> None:
        """What lies between here and the next stamp is no update's."""

    def intervals_s(self) -> Seconds:
        """Seconds of each update, shape (updates,)."""

    def device_s(self) -> Seconds:
        """Seconds of each update from ``begin`` to its end on the device's own clock, shape (updates,); NaN without."""


class HostClock:
    """For a device that computes while the host waits."""

    def __init__(self) -> None:
        self._stamps: list[float] = []
        self._updates: list[int] = []
        self._paused = True

    def stamp(self) -> None:
        self._stamps.append(time.perf_counter())
        if not self._paused:
            self._updates.append(len(self._stamps) - 1)
        self._paused = False

    def begin(self) -> None:
        pass

    def pause(self) -> None:
        self._paused = True

    def intervals_s(self) -> Seconds:
        stamps = np.array(self._stamps)
        ends = np.array(self._updates, dtype=np.int64)
        intervals: Seconds = stamps[ends] - stamps[ends - 1]
        return intervals

    def device_s(self) -> Seconds:
        return np.full(len(self._updates), np.nan)


class CudaClock:
    """Events on the device's own stream. The host runs ahead of it as in any training."""

    def __init__(self, updates: int, pauses: int) -> None:
        import torch

        def events(count: int) -> list[Any]:
            return [torch.cuda.Event(enable_timing=True) for _ in range(count)]

        # Made here: an event costs more to make than to record.
        self._spare_stamps, self._spare_begins = events(updates + pauses + 1), events(updates)
        self._stamps: list[Any] = []
        self._begins: list[Any] = []
        self._updates: list[int] = []
        self._paused = True

    def stamp(self) -> None:
        event = self._spare_stamps[len(self._stamps)]
        event.record()
        self._stamps.append(event)
        if not self._paused:
            self._updates.append(len(self._stamps) - 1)
        self._paused = False

    def begin(self) -> None:
        event = self._spare_begins[len(self._begins)]
        event.record()
        self._begins.append(event)

    def pause(self) -> None:
        self._paused = True

    def intervals_s(self) -> Seconds:
        import torch

        torch.cuda.synchronize()
        return np.array([self._stamps[end - 1].elapsed_time(self._stamps[end]) for end in self._updates]) / 1e3

    def device_s(self) -> Seconds:
        import torch

        torch.cuda.synchronize()
        pairs = zip(self._begins, self._updates, strict=True)
        return np.array([begin.elapsed_time(self._stamps[end]) for begin, end in pairs]) / 1e3


def clock_for(device_kind: str, updates: int, pauses: int = 0) -> Clock:
    return CudaClock(updates, pauses) if device_kind == "cuda" else HostClock()
