"""Work spread over processes: one batch under way in each, results as they come, and nobody left behind.

Processes are forked: they have the asker's modules and rules from the start, and cost no more memory than they change.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Generator, Iterable
from multiprocessing.connection import Connection, wait
from typing import Generic, TypeVar

from breakeven.schema.errors import UserError

Batch = TypeVar("Batch")
Result = TypeVar("Result")


def available_processes() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spread(work: Callable[[Batch], Result], batches: Iterable[Batch], processes: int) -> Generator[Result, None, None]:
    """``work`` of every batch, in any order. Batches are taken from their iterable only as processes become free.

    With one process the work is done here. Raises UserError where a process ends before its work does; in any case,
    an interrupt included, no process outlives this call.
    """
    if processes <= 1 or "fork" not in multiprocessing.get_all_start_methods():
        yield from map(work, batches)
        return
    workers: list[_Worker[Batch, Result]] = []
    try:
        idle: list[_Worker[Batch, Result]] = []
        for batch in batches:
            if not idle and len(workers) < processes:
                workers.append(_Worker(work, [worker.connection for worker in workers]))
                idle.append(workers[-1])
            while not idle:
                for worker in _ready(workers):
                    yield worker.result()
                    idle.append(worker)
            idle.pop().begin(batch)
        while any(worker.is_busy for worker in workers):
            for worker in _ready(workers):
                yield worker.result()
    finally:
        for worker in workers:
            worker.end()


class _Worker(Generic[Batch, Result]):
    def __init__(self, work: Callable[[Batch], Result], others: list[Connection]) -> None:
        context = multiprocessing.get_context("fork")
        self.connection, far_end = context.Pipe()
        self.process = context.Process(target=_serve, args=(work, far_end, [*others, self.connection]), daemon=True)
        # An interrupt reaches the whole group; ending is the asker's to do. What is blocked stays so in a child.
        unblocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        far_end.close()
        self.is_busy = False

    def begin(self, batch: Batch) -> None:
        self.is_busy = True
        try:
            self.connection.send(batch)
        except OSError:
            raise self.died() from None

    def result(self) -> Result:
        try:
            result: Result = self.connection.recv()
        except (EOFError, OSError):
            raise self.died() from None
        self.is_busy = False
        return result

    def died(self) -> UserError:
        self.process.join(1)
        code = self.process.exitcode
        how = f"killed by {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
        return UserError(
            f"A reading process ended before its work did ({how}); nothing was written.\n"
            "If memory ran out, try fewer processes (--processes 1)."
        )

    def end(self) -> None:
        self.connection.close()
        self.process.kill()
        self.process.join()


def _ready(workers: list[_Worker[Batch, Result]]) -> list[_Worker[Batch, Result]]:
    """Those that have a result, or have died; waits until there is one."""
    busy = {worker.connection: worker for worker in workers if worker.is_busy}
    return [busy[connection] for connection in wait(list(busy)) if isinstance(connection, Connection)]


def _serve(work: Callable[[Batch], Result], connection: Connection, others: list[Connection]) -> None:
    for other in others:  # else a process would hold its own line open, and not see the asker die
        other.close()
    while True:
        try:
            batch = connection.recv()
        except (EOFError, OSError):
            return
        connection.send(work(batch))
