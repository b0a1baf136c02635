"""One run's ranks, forked from a server: the process between the two starts them, and sees to it that they end."""

import contextlib
import os
import select
import signal
import socket
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

from breakeven.measure.channel import send
from breakeven.measure.job import Job
from breakeven.measure.processes import ChildEnds, adopt_orphans, child_dies_with, end_children, name_this
from breakeven.measure.worker import run_rank
from breakeven.schema.spec import Json

#: Seconds that the other ranks have, once one has failed, to say of what they do.
GRACE_S = 1.0

#: Seconds a store waits for the other ranks: they are forked one after the other.
STORE_TIMEOUT = timedelta(seconds=60)

HOST = "127.0.0.1"


def supervise(connection: socket.socket, request: Json, log: int, server: int) -> NoReturn:
    """The whole life of this process. It ends with its server, and when the launcher closes the connection."""
    os.setsid()
    child_dies_with(server)
    adopt_orphans()
    name_this("breakeven-run")
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    os.umask(request["mask"])
    os.sched_setaffinity(0, request["cores"])
    job = Job.read(Path(request["job"]))
    connection.settimeout(None)
    # Bound before any rank is there: no other process can take the port in between.
    with socket.create_server((HOST, 0), backlog=job.spec.ranks + 8) as listener:
        ends = ChildEnds()
        send(connection, {"supervisor": os.getpid()})
        ranks = {_fork_rank(job, rank, listener, connection, ends): rank for rank in range(job.spec.ranks)}
    told = _wait(connection, ends, ranks)
    end_children()  # of ranks that are gone, too
    with contextlib.suppress(OSError):
        send(connection, told)
    os._exit(0)


def _fork_rank(job: Job, rank: int, listener: socket.socket, connection: socket.socket, ends: ChildEnds) -> int:
    supervisor = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        child_dies_with(supervisor)
        name_this(f"breakeven-rank{rank}")
        ends.close()
        connection.close()
        port = listener.getsockname()[1]
        ranks = job.spec.ranks
        if rank:
            listener.close()
        # As torchrun has it, for whoever looks there.
        os.environ |= {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(ranks),
        }
        os.environ |= {"MASTER_ADDR": HOST, "MASTER_PORT": str(port)}

        def rendezvous(_: timedelta) -> dict[str, Any]:
            import torch.distributed as dist

            mine = {"is_master": True, "master_listen_fd": listener.detach()} if rank == 0 else {"is_master": False}
            store = dist.TCPStore(HOST, port, ranks, timeout=STORE_TIMEOUT, **mine)
            return {"store": store, "rank": rank, "world_size": ranks}

        run_rank(job, rank, rendezvous)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)  # whatever happens, no rank goes on as its supervisor


def _wait(connection: socket.socket, ends: ChildEnds, ranks: dict[int, int]) -> Json:
    """Until every rank has ended. ``ranks``: process id to rank. Those that are killed here have no code."""
    codes: dict[int, int] = {}
    peaks: dict[int, float] = {}
    first_killed: int | None = None
    failed_at: float | None = None
    killed = False
    poller = select.poll()
    poller.register(ends, select.POLLIN)
    poller.register(connection, select.POLLIN)
    while True:
        ends.clear()
        for rank, code, peak_gib in _reaped(ranks):
            peaks[rank] = peak_gib
            if killed and code == -signal.SIGKILL:
                continue
            codes[rank] = code
            if code and failed_at is None:
                failed_at = time.monotonic()
            if code < 0 and first_killed is None:
                first_killed = rank
        if len(peaks) == len(ranks):
            return {"codes": codes, "first_killed": first_killed, "peak_rss_gib": peaks}
        left = None if failed_at is None or killed else 1000 * max(failed_at + GRACE_S - time.monotonic(), 0)
        ready = {fd for fd, _ in poller.poll(left)}
        over = failed_at is not None and time.monotonic() >= failed_at + GRACE_S
        if not killed and (connection.fileno() in ready or over):
            killed = True
            poller.unregister(connection)
            for pid, rank in ranks.items():
                if rank not in peaks:
                    os.kill(pid, signal.SIGKILL)


def _reaped(ranks: dict[int, int]) -> list[tuple[int, int, float]]:
    """(rank, exit code, peak GiB) of every one that has ended since; others' orphans are adopted, and passed over."""
    found = []
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid in ranks:
                found.append((ranks[pid], os.waitstatus_to_exitcode(status), usage.ru_maxrss / 2**20))
    return found
