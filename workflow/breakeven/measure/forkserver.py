"""``python -m breakeven.measure.forkserver``: imports once what every run needs, then forks the ranks of each run.

A launcher starts it (``forked``), for one head process: it ends with that, or after some idle time. It computes nothing
and looks at no device, since a process that has threads or a device cannot be forked; that it has but one thread is
checked before every fork.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import socket
import sys
import time
import traceback
from dataclasses import asdict, dataclass

from breakeven.measure.channel import is_same_user, receive, send
from breakeven.measure.processes import ChildEnds, Process, name_this, threads
from breakeven.measure.sources import PACKAGE
from breakeven.measure.watch import POLL_S, pidfd
from breakeven.schema.catalog import WORKLOADS
from breakeven.schema.spec import Json

#: What ranks import, as far as it takes long.
MODULES = (
    "torch._dynamo",  # by any optimiser, in its first step
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper",
    "torch.distributed.algorithms.ddp_comm_hooks.default_hooks",
    "torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook",
    "torch.distributed.device_mesh",
    "torch.distributed.fsdp",
    "torch.distributed.optim",
    "torch.distributed.pipelining",
    "torch.distributed.tensor.parallel",
    "torch.utils.data",
    "peft",
    "transformers.models.auto.modeling_auto",
    *(f"transformers.models.{family}.modeling_{family}" for family in WORKLOADS),
)

#: Seconds that a client may take to say what it wants: it looks around the machine first.
REQUEST_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    key: str
    """All that two runs must share to be forked from here."""
    head: Process | None
    """It ends when this does."""
    idle_s: float
    path: str
    """Where it listens."""

    def to_json(self, listener: int) -> str:
        return json.dumps(asdict(self) | {"listener": listener})

    @classmethod
    def from_json(cls, text: str) -> "tuple[Options, int]":
        raw = json.loads(text)
        listener = raw.pop("listener")
        raw["head"] = Process(**raw["head"]) if raw["head"] else None
        return cls(**raw), listener


def main() -> None:
    options, listener = Options.from_json(sys.argv[1])
    name_this("breakeven-fork")
    import_all()
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)  # until now the log of the run it was started for
        os.dup2(nowhere.fileno(), 2)
    gc.collect()
    gc.freeze()  # what is here now is never looked at again: pages stay shared with the ranks
    server = Server(options, socket.socket(fileno=listener))
    try:
        server.serve()
    finally:
        server.leave()
    os._exit(0)  # there is nothing to clear up, and a library's own clearing up takes its time


def import_all() -> None:
    """All that can be. What cannot is the affair of the run that needs it; but without torch none can run."""
    importlib.import_module("torch")
    strategies = sorted((PACKAGE / "strategies").glob("*.py"))
    own = ["datasets.batches", "measure.supervisor", "measure.results", "measure.evaluation", "workloads.registry"]
    own += [f"strategies.{file.stem}" for file in strategies]
    for name in (*MODULES, *(f"breakeven.{name}" for name in own)):
        with contextlib.suppress(Exception):
            importlib.import_module(name)


class Server:
    def __init__(self, options: Options, listener: socket.socket) -> None:
        self._options, self._listener = options, listener
        self._ends = ChildEnds()
        self._supervisors: set[int] = set()
        self._served = 0
        self._place = _place(options.path)

    def leave(self) -> None:
        """Nobody finds this server any more, nor loses one that has taken its place."""
        if self._place is not None and _place(self._options.path) == self._place:
            os.unlink(self._options.path)
        self._place = None

    def serve(self) -> None:
        """Until the head ends, a client says so, or nothing has been asked for long; what it has forked ends too."""
        head = self._options.head
        head_fd = pidfd(head.pid) if head else -1
        poller = select.poll()
        for fd in (self._listener.fileno(), self._ends.fileno(), head_fd):
            if fd >= 0:
                poller.register(fd, select.POLLIN)
        idle_since = time.monotonic()
        while head is None or head.lives:
            left = idle_since + self._options.idle_s - time.monotonic()
            if self._supervisors:
                left = self._options.idle_s
            elif left <= 0:
                return
            if head and head_fd < 0:
                left = min(left, POLL_S)
            ready = {fd for fd, _ in poller.poll(1000 * left)}
            if self._reap():
                idle_since = time.monotonic()
            if self._listener.fileno() in ready and not self._accept():
                return

    def _reap(self) -> bool:
        self._ends.clear()
        before = len(self._supervisors)
        with contextlib.suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                self._supervisors.discard(pid)
        return len(self._supervisors) < before

    def _accept(self) -> bool:
        """Serves one client; False: it said to end, or this process can serve no more."""
        connection, _ = self._listener.accept()
        with connection:
            if not is_same_user(connection):
                return True
            connection.settimeout(REQUEST_LIMIT_S)
            try:
                send(connection, {"key": self._options.key, "served": self._served})
                request = receive(connection)
                if request is None:  # went away
                    return True
                message, fds = request
                if message.get("end"):
                    self.leave()  # before the client sees that this connection is closed
                    return False
                if (count := threads()) != 1:
                    self.leave()
                    send(connection, {"refused": f"the fork server has {count} threads, and cannot be forked"})
                    return False
                self._fork(connection, message, fds[0])
                os.close(fds[0])
            except (OSError, IndexError):
                pass
        return True

    def _fork(self, connection: socket.socket, request: Json, log: int) -> None:
        server = os.getpid()
        sys.stdout.flush()
        pid = os.fork()
        if pid:
            self._supervisors.add(pid)
            self._served += 1
            return
        try:
            from breakeven.measure.supervisor import supervise

            self._ends.close()
            self._listener.close()
            supervise(connection, request, log, server)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)  # whatever happens, no child goes on as a server


def _place(path: str) -> tuple[int, int] | None:
    """What tells a socket from another of that name: a number alone is given out again."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_ctime_ns


if __name__ == "__main__":
    main()
