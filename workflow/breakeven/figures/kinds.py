"""The kinds of figures: what each needs, which of its numbers are derived, and its caption. Read without matplotlib."""

from dataclasses import dataclass

#: A study's tables; every kind that needs one of them needs the three.
TABLES = ("points", "efficiency", "breakeven")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of figure."""

    needs: tuple[str, ...]
    """Inputs of ``python -m breakeven.figures`` without which it cannot be drawn."""
    caption: str
    """One sentence for a report."""
    derived: str
    """What MLCommons' rules have called a derived metric: the numbers that its results do not hold themselves."""


_SERIES = "Speed-up, efficiency and break-even"

KINDS = {
    "time": Kind(
        TABLES,
        "Time against the number of devices, and the speed-up beside the line it would follow if every device paid in "
        "full.",
        _SERIES,
    ),
    "efficiency": Kind(
        TABLES,
        "Efficiency against the number of devices, with the threshold and the largest size that keeps it, the "
        "break-even.",
        _SERIES,
    ),
    "settings": Kind(
        ("comparison",),
        "What each setting changes, all else equal: work per time against the value that is named, on every number of "
        "devices.",
        "Speed-ups",
    ),
    "decomposition": Kind(
        TABLES,
        "What the efficiency of each size was lost to: the parts are logarithms, so they add up to the whole loss, and "
        "a part below the line is a gain.",
        "Efficiency and its parts",
    ),
    "samples": Kind(
        ("scores", "benchmark", "reference", "critical_batch"),
        "Samples until the target was reached against the global batch, of every submission and of MLPerf's reference "
        "runs, with the batch at which twice the fewest samples are needed.",
        "Samples to converge, the fitted curve and the critical batch",
    ),
    "pareto": Kind(
        ("scores", "benchmark", "family"),
        "Device-hours against time to train of every submission: what stands on the staircase, no submission of the "
        "same accelerator beats in both.",
        "Device-hours and the front",
    ),
    "vendors": Kind(
        ("scores", "benchmark"),
        "Time to train of every submission of one size by accelerator, and how far the submitters of one accelerator "
        "lie apart.",
        "Spreads and factors between accelerators",
    ),
    "rounds": Kind(
        ("scores", "benchmark"),
        "The best times to train from round to round: at one size, and with as many devices as anybody used.",
        "Changes from round to round",
    ),
}


def kinds(source: str, rounds: int = 1, *, settings: bool = False) -> tuple[str, ...]:
    """The kinds that a study of ``source`` has; ``rounds``: how many rounds its results may be compared over;
    ``settings``: whether runs of it differ in one setting alone."""
    if source != "mlperf":
        return ("time", "efficiency", "settings") if settings else ("time", "efficiency")
    return tuple(kind for kind in KINDS if kind != "settings" and (kind != "rounds" or rounds > 1))
