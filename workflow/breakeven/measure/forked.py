"""Ranks started by a fork server on this host (``forkserver``): what takes seconds to import has been imported once."""

import contextlib
import os
import select
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from breakeven.measure.channel import is_same_user, receive, send, socket_path
from breakeven.measure.environment import LIBRARIES, PREFIXES, installed
from breakeven.measure.forkserver import Options
from breakeven.measure.job import Job, Notes
from breakeven.measure.processes import KILL_WAIT_S, Process
from breakeven.measure.ranks import Exits, log_tail
from breakeven.measure.sources import PACKAGE, ROOMS, sources_digest
from breakeven.schema.spec import Json, digest

#: A server may take so long to import everything: minutes, from a busy network file system.
IMPORT_LIMIT_S = 600.0
#: It answers at once otherwise.
ANSWER_LIMIT_S = 30.0

#: Variables that are read when something is imported, beside those that can change a number.
IMPORTED = ("PYTHON", "LD_", "HF_", "TRANSFORMERS_", "TOKENIZERS_", "USE_", "XDG_CACHE_HOME")


class NoServer(Exception):
    """Why there is none, in one line."""


@dataclass
class Forked:
    """The ranks of one run, and the connection to their supervisor: it ends them when this end is closed."""

    connection: socket.socket
    notes: Notes
    start: Json
    _told: Json | None = field(default=None)
    _ended: bool = False

    @classmethod
    def begin(cls, job: Job, environment: dict[str, str], log: Path, server: "Server") -> "Forked":
        """Raises NoServer."""
        job_file = job.scratch / "job.json"
        job.write(job_file)
        with log.open("ab") as stream:
            request = {
                "job": str(job_file),
                "environment": environment,
                "folder": os.getcwd(),
                "mask": _umask(),
                "cores": sorted(os.sched_getaffinity(0)),
            }
            with contextlib.suppress(OSError):  # it has closed: no answer will come
                send(server.connection, request, (stream.fileno(),))
        server.connection.settimeout(ANSWER_LIMIT_S)
        answer = receive(server.connection)
        if answer is None or "refused" in answer[0]:
            raise NoServer(answer[0]["refused"] if answer else "the fork server ended before it started the ranks")
        server.connection.settimeout(None)
        start = {"by": "fork", "generation": server.generation, "served": server.served}
        return cls(server.connection, Notes(job.scratch), start)

    def fileno(self) -> int:
        return self.connection.fileno()

    def ended(self) -> bool:
        if not self._ended and select.select([self.connection], [], [], 0)[0]:
            self._receive()
        return self._ended

    def stop(self) -> Exits:
        if not self.ended():
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(KILL_WAIT_S)
            self._receive()
        self.connection.close()
        self._wait_until_gone()
        if self._told is None:
            return Exits({}, starter=-9)  # killed: it always tells, and everything that it started has ended with it
        return Exits(
            codes={int(rank): code for rank, code in self._told["codes"].items()},
            first_killed=self._told["first_killed"],
            peak_rss_gib={int(rank): peak for rank, peak in self._told["peak_rss_gib"].items()},
        )

    def _receive(self) -> None:
        self._ended = True
        answer = receive(self.connection)
        self._told = answer[0] if answer else None

    def _wait_until_gone(self) -> None:
        give_up = time.monotonic() + KILL_WAIT_S
        while any(rank.lives for rank in self.notes.alive().values()) and time.monotonic() < give_up:
            time.sleep(0.005)


@dataclass(frozen=True, slots=True)
class Server:
    """One that is ready for a request, and will take this one alone before any other."""

    connection: socket.socket
    generation: int
    served: int


def reach(generation: int, environment: dict[str, str], log: Path, watched: list[Process], idle_s: float) -> Server:
    """The server of this head, started where there is none or another one is wanted: each repeat of a study has its
    own, so that what happens to be particular to a server's memory does not stay the same over repeats.

    The caller holds the host lock. Raises NoServer, and InterruptedError when one of ``watched`` ends.
    """
    head = watched[-1] if watched else None
    path = socket_path(head)
    key = server_key(generation, environment)
    found = _connect(path)
    if found is not None:
        hello = _hello(found, None, watched, ANSWER_LIMIT_S)
        if hello is not None and hello["key"] == key:
            return Server(found, generation, hello["served"])
        if hello is not None:
            send(found, {"end": True})
            found.settimeout(ANSWER_LIMIT_S)
            receive(found)  # until it has closed
        found.close()
    options = Options(key=key, head=head, idle_s=idle_s, path=str(path))
    connection, server = _start(options, environment, log)
    hello = _hello(connection, server, watched, IMPORT_LIMIT_S)
    if hello is None:
        connection.close()
        server.kill()
        server.wait()
        raise NoServer(f"the fork server did not start: {log_tail(log)}")
    return Server(connection, generation, hello["served"])


def server_key(generation: int, environment: dict[str, str]) -> str:
    """All that two runs must share to be forked from one process."""
    what = {
        "generation": generation,
        "python": [sys.executable, sys.prefix, sys.version],
        "package": str(PACKAGE),
        "folder": os.getcwd(),  # Python looks for modules there too
        "sources": sources_digest(("schema", *ROOMS)),
        "libraries": {name: installed(name) for name in LIBRARIES},
        "variables": {
            name: value for name, value in sorted(environment.items()) if name.startswith((*PREFIXES, *IMPORTED))
        },
    }
    return digest(what, 16)


def _connect(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except OSError:  # none, or what a killed one has left
        connection.close()
        return None
    if is_same_user(connection):
        return connection
    connection.close()
    return None


def _start(options: Options, environment: dict[str, str], log: Path) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """A server that imports, and a connection that it will accept when it has."""
    path = Path(options.path)
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener, log.open("ab") as stream:
        listener.bind(str(path))
        listener.listen(8)
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(path))
        server = subprocess.Popen(
            [sys.executable, "-m", "breakeven.measure.forkserver", options.to_json(listener.fileno())],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # it outlives this launcher, and no terminal's signal reaches it
            pass_fds=(listener.fileno(),),
        )
    return connection, server


def _hello(
    connection: socket.socket, server: subprocess.Popen[bytes] | None, watched: list[Process], limit_s: float
) -> Json | None:
    """What a server says first; None where it ends without."""
    deadline = time.monotonic() + limit_s
    while not select.select([connection], [], [], 0.1)[0]:
        if not all(process.lives for process in watched):
            raise InterruptedError("the process that asked for this run has ended")
        if time.monotonic() > deadline or (server is not None and server.poll() is not None):
            return None
    connection.settimeout(ANSWER_LIMIT_S)
    answer = receive(connection)
    return answer[0] if answer else None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
