"""How a run ended. A status is a result, never a missing row."""

from enum import StrEnum


class Status(StrEnum):
    OK = "ok"
    OOM = "oom"
    TIMEOUT = "timeout"
    FAILED = "failed"
    DIVERGED = "diverged"
    UNSUPPORTED = "unsupported"
    #: a figure or table expects this run and the archive lacks it; never written by a run itself
    NOT_MEASURED = "not_measured"
