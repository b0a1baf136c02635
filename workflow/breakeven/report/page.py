"""The page: what the template is given, and its rendering. Nothing here depends on the time or the machine."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
from markupsafe import Markup

from breakeven import __version__
from breakeven.figures import words
from breakeven.figures.kinds import KINDS
from breakeven.figures.view import View, without_forbidden
from breakeven.report import platform, published, settings, tables
from breakeven.report.answer import Answer, study_answers
from breakeven.report.cells import Table
from breakeven.report.inline import inline_svg
from breakeven.report.study import Study
from breakeven.schema.errors import UserError
from breakeven.schema.spec import slug

SOURCE_WORDS = {"measured": "measured", "mlperf": "published: MLPerf Training", "points": "from a table of points"}


@dataclass(frozen=True, slots=True)
class Figure:
    svg: Markup
    alt: str
    caption: str


@dataclass(frozen=True, slots=True)
class Shown:
    """An answer and its break-even as one large word."""

    answer: Answer
    large: str
    small: str


@dataclass(frozen=True, slots=True)
class WorkloadPart:
    title: str
    anchor: str
    answers: list[Shown]
    figures: list[Figure]
    efficiency: list[Table]
    context: Table | None
    break_even: Table
    settings: list[Table]
    data_bound: str
    to_target: bool
    critical_batch: str
    not_split: list[str]


@dataclass(frozen=True, slots=True)
class RoundPart:
    """What a round's logs hold, for readers who want to trust them."""

    name: str
    modes: str
    differ: Table
    oddities: Table


@dataclass(frozen=True, slots=True)
class StudyPart:
    name: str
    anchor: str
    title: str
    source: str
    notice: str
    warnings: list[str]
    workloads: list[WorkloadPart]
    facts: list[tuple[str, str]]
    failures: Table
    unsupported: Table
    accuracy: Table
    measured: bool
    runs: Table | None
    equivalence: Table | None
    same_work: str
    rounds: list[RoundPart]
    commands: tuple[str, ...]


def study_part(study: Study) -> StudyPart:
    frames = study.tables
    runs = frames.get("runs")
    return StudyPart(
        name=study.name,
        anchor=slug(study.name),
        title=study.title,
        source=SOURCE_WORDS[study.meta.source],
        notice=study.notice,
        warnings=[*platform.warnings(runs), *([study.absent] if study.absent else [])],
        workloads=[_workload(study, view) for view in study.views],
        facts=platform.facts(study.meta.platform, runs),
        failures=tables.failures_table(frames["points"], runs),
        unsupported=tables.unsupported_table(runs),
        accuracy=tables.accuracy_table(runs),
        measured=runs is not None,
        runs=tables.runs_table(runs) if runs is not None else None,
        equivalence=tables.equivalence_table(frames["equivalence"]) if "equivalence" in frames else None,
        same_work=tables.same_work_sentence(frames["equivalence"]) if "equivalence" in frames else "",
        rounds=[_round(found) for found in study.rounds],
        commands=(*study.meta.commands, *_commands(study)),
    )


def _workload(study: Study, view: View) -> WorkloadPart:
    comparison = study.tables.get("comparison")
    return WorkloadPart(
        title=view.workload,
        anchor=f"{slug(study.name)}-{slug(view.workload)}",
        answers=[_shown(view, a) for a in study_answers(study, view)],
        figures=[_figure(study, view, kind) for kind in study.drawn(view.workload)],
        efficiency=tables.efficiency_tables(study.tables["efficiency"], view),
        context=tables.context_table(study.tables["efficiency"], view),
        break_even=tables.break_even_table(study.tables["breakeven"], view),
        settings=settings.setting_tables(comparison, view.workload, study.device) if comparison is not None else [],
        data_bound=settings.data_bound(comparison, view.workload, study.device) if comparison is not None else "",
        to_target=view.to_target,
        critical_batch=_critical_batch(study, view),
        not_split=[sentence for curve in view.headlines for sentence in published.not_split(curve)],
    )


def _critical_batch(study: Study, view: View) -> str:
    benchmark = study.meta.benchmarks.get(view.workload, "")
    found = (published.critical_batch_sentence(of.critical_batch, benchmark) for of in study.rounds)
    return next((sentence for sentence in found if sentence), "")


def _round(found: published.Round) -> RoundPart:
    return RoundPart(
        name=found.name,
        modes=published.modes_sentence(found.scores),
        differ=published.modes_table(found.scores),
        oddities=published.anomalies_summary(found.anomalies),
    )


def _shown(view: View, answer: Answer) -> Shown:
    curve = next(c for c in view.curves if c.series == answer.series)
    found = view.break_even(answer.series)
    if len(curve.sizes) < 2 or found is None or found.threshold is None or found.devices is None:
        return Shown(answer, "–", "no curve" if len(curve.sizes) < 2 else "no break-even")
    kept = f"an efficiency of {words.efficiency(found.threshold)}"
    if found.devices >= max(curve.sizes):
        largest = f"{max(curve.sizes)} {words.devices_word([curve.device], max(curve.sizes))}"
        return Shown(answer, "not reached", f"up to {largest}, the largest size tested, which still keeps {kept}")
    device = words.devices_word([curve.device], found.devices)
    return Shown(answer, words.size(found.devices), f"{device}, the largest size tested that keeps {kept}")


def _figure(study: Study, view: View, kind: str) -> Figure:
    path = study.figure(view.workload, kind)
    alt = f"{view.workload}: {KINDS[kind].caption}"
    try:
        return Figure(inline_svg(path.read_text(encoding="utf-8"), alt), alt, KINDS[kind].caption)
    except FileNotFoundError:
        raise UserError(f"{path}: no such figure. Draw it first: python -m breakeven.figures --kind {kind} …") from None


def _commands(study: Study) -> list[str]:
    """The command lines that draw this study's figures from its tables again."""
    return [
        f"python -m breakeven.figures --kind {kind} {shlex.join(arguments)}"
        f" --output {shlex.quote(study.figure(view.workload, kind).as_posix())}"
        for view in study.views
        for kind, arguments in study.drawn(view.workload).items()
    ]


def render(studies: Sequence[Study]) -> str:
    here = Path(__file__).parent
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(here),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    page = environment.get_template("report.html.j2").render(
        studies=[study_part(study) for study in studies],
        style=Markup((here / "report.css").read_text(encoding="utf-8")),  # noqa: S704 - our own file
        version=__version__,
    )
    return without_forbidden(page)
