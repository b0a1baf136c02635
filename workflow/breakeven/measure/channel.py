"""Between the launcher and a fork server on this host: where the server listens, and how they speak."""

import json
import os
import socket
import stat
import struct
import tempfile
from pathlib import Path

from breakeven.measure.processes import Process
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Json

#: Bytes of a socket's path that every Unix allows, the final zero included.
PATH_LIMIT = 104
#: Bytes of a message; the largest part of any is an environment, which the kernel limits too.
MESSAGE_LIMIT = 1 << 26
_LENGTH = struct.Struct("!I")


def socket_path(head: Process | None) -> Path:
    """One server per head at a time: who asks for runs by one head finds the same. Raises UserError."""
    name = f"{head.pid}-{head.started}" if head else "any"
    path = user_folder() / f"{name}.sock"
    if len(os.fsencode(path)) >= PATH_LIMIT:
        raise UserError(
            f"{path}: too long for a socket's path. Set TMPDIR to a shorter folder, or use --launcher torchrun."
        )
    return path


def user_folder() -> Path:
    """This user's own, which nobody else can enter: who is in it could start processes in this user's name."""
    path = Path(tempfile.gettempdir()) / f"breakeven-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise UserError(
            f"{path}: not a folder of this user's alone (mode 0700), as the fork server needs. Remove it, set TMPDIR, "
            "or use --launcher torchrun."
        )
    return path


def is_same_user(connection: socket.socket) -> bool:
    """Whether the process at the other end is this user's, as the kernel has it."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return bool(user == os.getuid())


def send(connection: socket.socket, message: Json, fds: tuple[int, ...] = ()) -> None:
    content = json.dumps(message).encode()
    socket.send_fds(connection, [_LENGTH.pack(len(content))], list(fds))
    connection.sendall(content)


def receive(connection: socket.socket) -> tuple[Json, list[int]] | None:
    """A message and the files that came with it; None where the other end has closed, or says no message."""
    try:
        head, fds, _, _ = socket.recv_fds(connection, _LENGTH.size, 4)
        head += _exactly(connection, _LENGTH.size - len(head)) if head else b""
        (length,) = _LENGTH.unpack(head)
        if length > MESSAGE_LIMIT:
            return None
        message: Json = json.loads(_exactly(connection, length))
    except (ConnectionError, EOFError, TimeoutError, ValueError, struct.error):
        return None
    return message, fds


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        part = connection.recv(min(count - len(found), 1 << 16))
        if not part:
            raise EOFError
        found += part
    return bytes(found)
