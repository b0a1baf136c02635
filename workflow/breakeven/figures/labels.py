"""Lines of text that figures share."""

from breakeven.figures import words
from breakeven.figures.view import View

_SCALING = {
    "weak": "weak scaling: fixed batch per device",
    "strong": "strong scaling: fixed global batch",
    "free": "batch chosen per size",
}

MLPERF_NOTE = (
    "Results from MLCommons, MLPerf Training. Speed-up, efficiency and break-even are derived metrics, "
    "not verified by the MLCommons Association."
)
#: What each source of points obliges a figure to say.
NOTES = {"mlperf": MLPERF_NOTE, "measured": "", "points": ""}


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
