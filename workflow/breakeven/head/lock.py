"""One head per folder: an flock with an owner, which the kernel drops however the head dies.

Snakemake's own lock outlives a SIGKILL and then wants `--unlock` by hand, so the profiles switch it off (`nolock`).
"""

import fcntl
import json
import os
import socket
import time
from pathlib import Path
from typing import IO

from breakeven.schema.errors import UserError

#: Kept open for the life of the process: closing the file would drop the lock.
_held: list[IO[str]] = []


def take(path: Path) -> None:
    """Hold the folder's lock until this process ends. Raises UserError naming the owner where another head holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        raise UserError(
            f"{path}: another run works in this folder{_owner(file.read())}. Wait for it or stop it."
        ) from None
    file.truncate(0)
    started = time.strftime("%Y-%m-%d %H:%M:%S")
    json.dump({"pid": os.getpid(), "host": socket.gethostname(), "since": started}, file)
    file.flush()
    _held.append(file)


def _owner(text: str) -> str:
    try:
        owner = json.loads(text)
        return f" (process {owner['pid']} on {owner['host']}, since {owner['since']})"
    except (ValueError, KeyError, TypeError):
        return ""
