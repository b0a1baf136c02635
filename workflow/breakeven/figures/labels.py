"""Lines of text that figures share."""

from collections.abc import Sequence

from breakeven.figures import words
from breakeven.figures.kinds import KINDS
from breakeven.figures.view import View

_SCALING = {
    "weak": "weak scaling: fixed batch per device",
    "strong": "strong scaling: fixed global batch",
    "free": "batch chosen per size",
}

SOURCES = ("measured", "mlperf", "points")
MLPERF_NOTE = (
    "Results from MLCommons, {rounds}. {derived} are derived metrics, not verified by MLCommons Association. "
    "The MLPerf name and logo are registered and unregistered trademarks of MLCommons Association."
)
ONE_SIZE = "Only one size has a time: nothing to compare."
ENVELOPE = "best of all submitters per size"
ENVELOPE_NOTE = "Best of all submitters per size is an envelope: the more submit at a size, the better its best."


def note_of(kind: str, source: str, rounds: Sequence[str] = ()) -> str:
    """What the source of a figure's numbers obliges it to say; empty for one's own."""
    if source != "mlperf":
        return ""
    named = f" {words.listing(rounds)}, closed division" if rounds else ""
    return MLPERF_NOTE.format(rounds=f"MLPerf Training{named}", derived=KINDS[kind].derived)


def presumed_source(study: str) -> str:
    """Of a study nobody names a source for. A published round is known by its name, so its notice is never lost."""
    return "mlperf" if study.startswith("mlperf") else "points"


def scaling_title(scaling: str) -> str:
    return _SCALING.get(scaling, scaling)


def reference(view: View, *, on_one_line: bool = False) -> str:
    """What is compared with what: the scaling where there is one only, and the reference of the headline series.

    ``on_one_line``: of speed-ups, where series with another reference are lifted onto the ideal line of the headline's.
    """
    scaling = [scaling_title(view.scalings[0])] if len(view.scalings) == 1 else []
    bases = {(c.device, c.reference_devices) for c in view.headlines or view.curves if c.reference_devices}
    alike = len({c.reference_devices for c in view.curves if c.reference_devices}) < 2
    others = "each against its own smallest size"
    against = f"each series {others.removeprefix('each ')}" if bases else ""
    if len(bases) == 1:
        device, n = bases.pop()
        against = f"against {words.count_of(device, n or 0)}"
        if not alike:
            against += f"; other series {'start on the ideal line of this reference' if on_one_line else others}"
    elif bases and not alike and on_one_line:
        against = "each series starts on the ideal line"
    return " · ".join(part for part in (*scaling, against) if part)
