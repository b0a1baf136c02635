"""The answer: what each size keeps, where more devices stop paying, what each step buys, and how far to trust it.

Pure functions of the tables.
"""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pandas as pd

from breakeven.figures import words
from breakeven.figures.view import BreakEven, Curve, View, without_forbidden
from breakeven.report.caveats import caveats
from breakeven.report.published import Round, lost_to, sentences
from breakeven.report.single import compared
from breakeven.report.study import Study

_SCALING = {"weak": "weak scaling", "strong": "strong scaling", "free": ""}
_WIDTH = 100
_TOGETHER = re.compile(r"[\d.]+ (?:at \d+|%)")


@dataclass(frozen=True, slots=True)
class Answer:
    """One series of one workload. ``lead`` is the sentence to quote; ``steps`` says what each further device buys,
    ``lost_to`` what the efficiency was lost to, ``single`` what the strategy itself costs, ``caveats`` what to know
    before trusting any of it."""

    workload: str
    series: str
    subject: str
    efficiency: str
    break_even: str
    steps: str
    lost_to: str = ""
    single: str = ""
    caveats: tuple[str, ...] = ()

    @property
    def lead(self) -> str:
        return f"{self.subject}: {'; '.join(part for part in (self.efficiency, self.break_even) if part)}."

    @property
    def text(self) -> str:
        return " ".join(part for part in (self.lead, self.steps, self.lost_to, self.single, *self.caveats) if part)


def answers(
    view: View,
    points: pd.DataFrame,
    runs: pd.DataFrame | None = None,
    rounds: Sequence[Round] = (),
    benchmark: str = "",
) -> list[Answer]:
    """One per headline series, in the tables' order, but for those this machine cannot run, if it can others.

    ``runs``: of a study that was measured here; ``rounds`` and the ``benchmark``: of one of published results.
    """
    able = [curve for curve in view.headlines if curve.sizes or {f.status for f in curve.failures} != {"unsupported"}]
    return [answer(view, curve, points, runs, rounds, benchmark) for curve in able or view.headlines]


def study_answers(study: Study, view: View) -> list[Answer]:
    """The answers of one workload of a study."""
    benchmark = study.meta.benchmarks.get(view.workload, "")
    return answers(view, study.tables["points"], study.tables.get("runs"), study.rounds, benchmark)


def answer(
    view: View,
    curve: Curve,
    points: pd.DataFrame,
    runs: pd.DataFrame | None,
    rounds: Sequence[Round] = (),
    benchmark: str = "",
) -> Answer:
    found = view.break_even(curve.series)
    threshold = found.threshold if found else None
    known = sentences(view, curve, rounds, benchmark) if view.to_target else caveats(view.workload, points, runs)
    return Answer(
        workload=view.workload,
        series=curve.series,
        subject=subject(view, curve, measured=runs is not None),
        efficiency=efficiency_part(curve, threshold, intervals=not view.to_target),
        break_even=break_even_part(curve, found),
        steps=steps_part(curve),
        lost_to=lost_to(curve),
        single=compared(view, curve, runs, threshold) if runs is not None else "",
        caveats=tuple(known),
    )


def subject(view: View, curve: Curve, *, measured: bool = False) -> str:
    """``BERT on H100-SXM (best submission per size, against 4)``; ``… (ddp, strong scaling, against ddp on 1 CPU
    core)`` where it was measured here, and other strategies could be meant."""
    where = words.devices_word([curve.device]) if curve.device.endswith("core") else curve.device
    on = "" if curve.device in ("", words.DEVICE) else f" on {where}"
    facts = [curve.name, _SCALING.get(curve.scaling, curve.scaling)]
    if curve.reference_devices is not None and len(curve.sizes) > 1:
        whole = f"{curve.name} on {words.count_of(curve.device, curve.reference_devices)}"
        facts.append(f"against {whole if measured else curve.reference_devices}")
    said = ", ".join(f for f in facts if f and f != view.workload)
    return f"{view.workload}{on}{f' ({said})' if said else ''}"


def efficiency_part(curve: Curve, threshold: float | None, *, intervals: bool = False) -> str:
    """``efficiency 0.94 at 8 (95 % interval 0.91 to 0.97), 0.77 at 16 (0.70 to 0.83)``: every size but the reference,
    which is 1 by definition."""
    rows = curve.rows[curve.rows["devices"] != curve.reference_devices].dropna(subset=["efficiency"])
    at: list[str] = []
    called = False
    for _, row in rows.iterrows():
        low, high = (words.efficiency(float(row[f"efficiency_{end}"]), threshold) for end in ("low", "high"))
        interval = ""
        if intervals and row[["efficiency_low", "efficiency_high"]].notna().all() and low != high:
            interval = f" ({'' if called else '95 % interval '}{low} to {high})"
            called = True
        at.append(f"{words.efficiency(float(row['efficiency']), threshold)} at {row['devices']:.0f}{interval}")
    gone = _untimed(curve)
    missing = f"no time at {gone}" if gone and curve.sizes else ""
    if not at:
        return missing
    return f"efficiency {', '.join(at)}{f' ({missing})' if missing else ''}"


def break_even_part(curve: Curve, found: BreakEven | None) -> str:
    """No more than the sizes tested can say."""
    if not curve.sizes:
        return f"no size has a time ({_untimed(curve)})" if curve.failures else "no size has a time"
    if len(curve.sizes) == 1:
        return f"{words.count_of(curve.device, curve.sizes[0])} is the only size with a time: no curve, no break-even"
    if found is None or found.threshold is None:
        return "no break-even criterion was asked for"
    kept = words.efficiency(found.threshold)
    dips = _dips(curve, found)
    if found.devices is None:
        return f"no size tested keeps {kept}"
    if found.devices >= max(curve.sizes):
        also = f", though {dips}" if dips else ""
        sure = _interval(found, "; 95 % interval of the largest size that keeps it {}")
        return (
            f"break-even (efficiency below {kept}) not reached up to {max(curve.sizes)}, the largest size tested"
            f"{also}{sure}"
        )
    return _reached(curve, found, kept, dips)


def _reached(curve: Curve, found: BreakEven, kept: str, dips: str) -> str:
    assert found.devices is not None
    larger = [n for n in curve.sizes if n > found.devices]
    details = [_interval(found, "95 % interval of the break-even {}")]
    if found.crossing is not None:
        details.append(f"the curve {'first ' if dips else ''}crosses it near {words.size(found.crossing)}")
    details.append(dips)
    if larger:
        details.append(f"next tested size {larger[0]}")
    size = words.size(found.devices)
    if found.devices == curve.reference_devices:
        claim = f"no size past {size} keeps at least {kept}"
    else:
        claim = f"{size} is the largest size tested that keeps at least {kept}"
    return f"{claim} ({'; '.join(detail for detail in details if detail)})"


def _interval(found: BreakEven, template: str) -> str:
    if not found.has_interval or found.low is None or found.high is None:
        return ""
    return template.format(f"{words.size(found.low)} to {words.size(found.high)}")


def _dips(curve: Curve, found: BreakEven) -> str:
    """``48 falls below it and 64 returns``: sizes below the threshold in front of a larger one that keeps it."""
    if found.devices is None or found.threshold is None:
        return ""
    rows = curve.rows[(curve.rows["devices"] < found.devices) & (curve.rows["efficiency"] < found.threshold)]
    below = [int(n) for n in rows["devices"]]
    if not below:
        return ""
    back = next(n for n in curve.sizes if n > below[-1])
    fall = "falls" if len(below) == 1 else "fall"
    return f"{words.listing([str(n) for n in below])} {fall} below it and {back} returns"


def _untimed(curve: Curve) -> str:
    """``8: oom``: sizes of which no run gave a time, and why."""
    gone = [n for n in curve.tried if n not in curve.sizes]
    return ", ".join(f"{n}: {words.listing([f.text for f in curve.failures if f.devices == n])}" for n in gone)


def steps_part(curve: Curve) -> str:
    """What each further step buys: ``From 4 to 8: 1.9 times faster for 1.1 times the device-hours.``"""
    rows = curve.rows.dropna(subset=["speedup", "device_hours"])
    hours = words.hours_word(curve.device)
    steps: list[str] = []
    for (_, a), (_, b) in pairwise(rows.iterrows()):
        gain = float(b["speedup"]) / float(a["speedup"])
        cost = float(b["device_hours"]) / float(a["device_hours"])
        pace = f"{words.ratio(gain)} times faster" if gain >= 1 else f"{words.ratio(1 / gain)} times slower"
        price = f"{words.ratio(cost)} times the {hours}" if not steps else words.ratio(cost)
        steps.append(f"{a['devices']:.0f} to {b['devices']:.0f}, {pace} for {price}")
    return f"Each step: {'; '.join(steps)}." if steps else ""


def plain_text(studies: Sequence[Study]) -> str:
    """Every answer, study by study; one study's results are never ranked against another's."""
    blocks = []
    for study in studies:
        lines = [f"{study.title}\n{'-' * len(study.title)}"]
        for view in study.views:
            lines += [_filled(a.text) for a in study_answers(study, view)]
        lines += [_filled(said) for said in (study.absent, study.notice) if said]
        blocks.append("\n\n".join(lines))
    return without_forbidden("\n\n\n".join(blocks) + "\n")


def _filled(text: str) -> str:
    """In lines; an efficiency stays with its size, a number with its unit."""
    held = _TOGETHER.sub(lambda found: found[0].replace(" ", "\0"), text)
    lines = textwrap.fill(held, _WIDTH, break_on_hyphens=False, break_long_words=False)
    return lines.replace("\0", " ")
