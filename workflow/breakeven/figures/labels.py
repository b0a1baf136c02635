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
MLPERF_NOTE = "Results from MLCommons, {rounds}. {derived} are derived metrics, not verified by MLCommons Association."
ENVELOPE = "best of all submitters per size"
ENVELOPE_NOTE = "Best of all submitters per size is an envelope: the more submit at a size, the better its best."


def note_of(kind: str, source: str, rounds: Sequence[str] = ()) -> str:
    """What the source of a figure's numbers obliges it to say; empty for one's own."""
    if source != "mlperf":
        return ""
    named = f" {words.listing(rounds)}, closed division" if rounds else ""
    return MLPERF_NOTE.format(rounds=f"MLPerf Training{named}", derived=KINDS[kind].derived)


def caption_of(kind: str) -> str:
    """One sentence that says what a figure shows."""
    return KINDS[kind].caption


def presumed_source(study: str) -> str:
    """Of a study nobody names a source for. A published round is known by its name, so its notice is never lost."""
    return "mlperf" if study.startswith("mlperf") else "points"


def scaling_title(scaling: str) -> str:
    return _SCALING.get(scaling, scaling)


def reference(view: View) -> str:
    """What is compared with what: the scaling where there is one only, and the reference of the headline series."""
    scaling = [scaling_title(view.scalings[0])] if len(view.scalings) == 1 else []
    bases = {(c.device, c.reference_devices) for c in view.headlines or view.curves if c.reference_devices}
    if len(bases) == 1 and all(c.reference_devices == next(iter(bases))[1] for c in view.curves):
        device, n = bases.pop()
        against = f"against {words.count_of(device, n or 0)}"
    elif len(bases) == 1:
        device, n = bases.pop()
        against = f"against {words.count_of(device, n or 0)}; other series each against its own smallest size"
    else:
        against = "each series against its own smallest size" if bases else ""
    return " · ".join(part for part in (*scaling, against) if part)
