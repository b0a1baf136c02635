"""``python -m breakeven.figures``: one figure of one workload.

Kinds time, efficiency and decomposition are drawn from a study's tables, settings from its comparison.csv; samples,
pareto, vendors and rounds from the scores of published rounds.
"""

import argparse
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from breakeven.figures import (
    decomposition_figure,
    efficiency_figure,
    layout,
    pareto_figure,
    rounds_figure,
    samples_figure,
    settings_figure,
    time_figure,
    vendors_figure,
)
from breakeven.figures.kinds import KINDS, TABLES
from breakeven.figures.labels import ENVELOPE_NOTE, SOURCES, note_of, presumed_source
from breakeven.figures.published import Published, has_benchmark, published, round_order
from breakeven.figures.svg import to_svg
from breakeven.figures.theme import theme
from breakeven.figures.view import View, read_table, view
from breakeven.schema.command import command
from breakeven.schema.errors import UserError
from breakeven.schema.files import write_text
from breakeven.schema.spec import slug

OF_SERIES: dict[str, Callable[[View, str, Published | None], Figure]] = {
    "time": time_figure.draw,
    "efficiency": efficiency_figure.draw,
    "decomposition": decomposition_figure.draw,
}
OF_SCORES: dict[str, Callable[[Published, str], Figure]] = {
    "samples": samples_figure.draw,
    "pareto": pareto_figure.draw,
    "vendors": vendors_figure.draw,
    "rounds": rounds_figure.draw,
}


def render(kind: str, what: View, source: str | None = None, results: Published | None = None) -> str:
    """The SVG of a figure of a study's series; the same view gives the same text.

    ``results``: the published submissions to show behind the series, where the kind shows them.
    """
    note = note_of(kind, source or presumed_source(what.study), (results.own_round,) if results else ())
    if any(c.envelope for c in (what.headlines if kind == "decomposition" else what.curves)):
        note = f"{ENVELOPE_NOTE}\n{note}"
    with theme():
        return to_svg(OF_SERIES[kind](what, note, results), _name(what.study, what.workload, kind))


def render_published(kind: str, what: Published, study: str) -> str:
    """The SVG of a figure of published results; the same tables give the same text."""
    rounds = sorted(what.rounds, key=round_order) if kind == "rounds" else (what.own_round,)
    with theme():
        return to_svg(OF_SCORES[kind](what, note_of(kind, "mlperf", rounds)), _name(study, what.workload, kind))


def render_settings(workload: str, comparison: pd.DataFrame, device: str = "") -> str:
    """The SVG of what each setting changes. ``device``: the word for one."""
    study = str(comparison["study"].iloc[0]) if len(comparison) else "study"
    with theme():
        return to_svg(settings_figure.draw(workload, comparison, device), _name(study, workload, "settings"))


def _name(study: str, workload: str, kind: str) -> str:
    return f"{slug(study)}-{slug(workload)}-{kind}"


@command
def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m breakeven.figures", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", required=True, choices=list(KINDS))
    parser.add_argument("--workload", required=True, help="its title, as in the tables")
    parser.add_argument("--points", type=Path, help="points.csv of the study")
    parser.add_argument("--efficiency", type=Path, help="efficiency.csv of the study")
    parser.add_argument("--breakeven", type=Path, help="breakeven.csv of the study")
    parser.add_argument("--comparison", type=Path, help="comparison.csv of the study")
    parser.add_argument("--device", default="device", help="the word for one device, as in the tables")
    parser.add_argument(
        "--scores",
        type=Path,
        nargs="+",
        help="scores.csv of the study's round, then of rounds that may be compared with it",
    )
    parser.add_argument("--reference", type=Path, help="reference.csv of the round")
    parser.add_argument("--critical-batch", type=Path, help="critical_batch.csv of the round")
    parser.add_argument("--benchmark", help="the workload's folder or name in the scores")
    parser.add_argument("--family", help="the accelerator family in the foreground")
    parser.add_argument("--source", choices=SOURCES, help="mlperf puts its notice on the figure")
    parser.add_argument("--output", required=True, type=Path, help="the SVG to write")
    options = parser.parse_args()
    _require(options)
    if options.kind == "settings":
        svg = render_settings(options.workload, read_table(options.comparison), options.device)
        write_text(options.output, svg)
        return
    series = _view(options)
    results = _published(options, series)
    if options.kind in OF_SERIES:
        svg = render(options.kind, series, options.source, results) if series else _render_absent(options)
    elif results is None:
        svg = _render_absent(options)
    else:
        study = series.study if series else f"mlperf-{results.own_round}"
        svg = render_published(options.kind, results, study)
    write_text(options.output, svg)


def _require(options: Namespace) -> None:
    """Raises UserError that names what the kind needs and was not given."""
    needs = list(KINDS[options.kind].needs)
    if any(getattr(options, name) for name in TABLES):
        needs += [name for name in TABLES if name not in needs]  # one without the others is a slip
    if options.scores and "benchmark" not in needs:
        needs.append("benchmark")
    missing = [f"--{name.replace('_', '-')}" for name in needs if not getattr(options, name)]
    if missing:
        raise UserError(f"--kind {options.kind} also needs {', '.join(missing)} (python -m breakeven.figures --help).")


def _view(options: Namespace) -> View | None:
    """The study's series; None without its tables, and of published results that have none of the workload."""
    if not options.points:
        return None
    points, efficiency, breakeven = (read_table(getattr(options, name)) for name in TABLES)
    if options.source == "mlperf" and options.workload not in set(efficiency["workload"]):
        return None
    return view(options.workload, points, efficiency, breakeven)


def _render_absent(options: Namespace) -> str:
    """What stands in place of a figure whose published results are not at hand."""
    on = f" on {options.family}" if options.family else ""
    rounds = list(read_table(options.scores[0])["round"].unique()) if options.scores else []
    with theme():
        figure = layout.without_data(
            title=options.workload,
            subtitle="",
            why=f"These results hold no scored submission of {options.workload}{on}.",
            note=note_of(options.kind, "mlperf", rounds),
        )
        return to_svg(figure, _name("mlperf", options.workload, options.kind))


def _published(options: Namespace, series: View | None) -> Published | None:
    if not options.scores:
        return None
    headline = next(iter(series.headlines), None) if series else None
    tables = [read_table(path) for path in options.scores]
    if options.points and series is None and not any(has_benchmark(table, options.benchmark) for table in tables):
        return None

    def optional(path: Path | None) -> pd.DataFrame | None:
        return read_table(path) if path else None

    return published(
        options.workload,
        options.benchmark,
        tables,
        family=options.family or (headline.device if headline else ""),
        reference=optional(options.reference),
        critical=optional(options.critical_batch),
        headline=headline,
    )


if __name__ == "__main__":
    main()
