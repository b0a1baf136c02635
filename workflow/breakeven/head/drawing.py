"""Which figures a study has, and what each is drawn from. The kinds themselves are in ``figures.kinds``."""

import json
from dataclasses import dataclass
from typing import Any

from breakeven.figures.kinds import KINDS, TABLES, kinds
from breakeven.head.plan import Plan
from breakeven.head.rounds import ROUNDS
from breakeven.head.study import STUDIES, StudyPlan


@dataclass(frozen=True, slots=True, repr=False)
class Drawing:
    plan: Plan

    def kinds(self, study: StudyPlan, workload: str) -> tuple[str, ...]:
        """The kinds of figures of a workload, by its slug."""
        return kinds(study.source, len(self._rounds(study, workload)), settings=bool(study.document["comparisons"]))

    def files(self, study: StudyPlan) -> list[str]:
        folder = f"{STUDIES}/{study.name}/figures"
        return [
            f"{folder}/{workload}/{kind}.svg" for workload in study.workloads for kind in self.kinds(study, workload)
        ]

    def document(self, study: StudyPlan) -> str:
        """The text of the study's plan.json: what it is, its figures, and the arguments that draw each."""
        figures = {
            title: {kind: self._arguments(study, workload, kind) for kind in self.kinds(study, workload)}
            for workload, title in study.workloads.items()
        }
        origin = self.plan.rounds[study.round].origin if study.round else ""
        document = {**study.document, "figures": figures, "origin": origin}
        return json.dumps(document, indent=1, sort_keys=True) + "\n"

    def inputs(self, wildcards: Any) -> dict[str, str | list[str]]:
        """Every table that a figure is drawn from, by what ``python -m breakeven.figures`` calls it."""
        return self._inputs(self.plan.studies[wildcards.study], wildcards.workload, wildcards.figure)

    def arguments(self, wildcards: Any) -> list[str]:
        """The command line but for the kind and the output."""
        return self._arguments(self.plan.studies[wildcards.study], wildcards.workload, wildcards.figure)

    def _inputs(self, study: StudyPlan, workload: str, kind: str) -> dict[str, str | list[str]]:
        names = KINDS[kind].needs if kind == "settings" else TABLES
        tables: dict[str, str | list[str]] = {name: f"{STUDIES}/{study.name}/tables/{name}.csv" for name in names}
        if study.source == "mlperf":
            # Its own round's scores stand behind every kind; those of others only where rounds are what is drawn.
            rounds = self._rounds(study, workload) if kind == "rounds" else [study.round]
            tables["scores"] = [f"{ROUNDS}/{name}/scores.csv" for name in rounds]
            needed = KINDS[kind].needs
            tables |= {name: study.round_table(name) for name in ("reference", "critical_batch") if name in needed}
        return tables

    def _arguments(self, study: StudyPlan, workload: str, kind: str) -> list[str]:
        words = ["--workload", study.workloads[workload], "--source", study.source]
        for name, paths in self._inputs(study, workload, kind).items():
            words += [f"--{name.replace('_', '-')}", *([paths] if isinstance(paths, str) else paths)]
        if kind == "settings":
            words += ["--device", study.document["machine"]["device_word"]]
        if study.source == "mlperf":
            words += ["--benchmark", study.benchmarks[workload], "--family", study.family]
        return words

    def _rounds(self, study: StudyPlan, workload: str) -> list[str]:
        """Rounds of this invocation whose results of a workload may be compared, the study's own first."""
        if not study.round:
            return []
        benchmark = self.plan.rounds[study.round].rules.benchmark(study.benchmarks[workload])
        comparable = benchmark.comparable_rounds if benchmark else ()
        others = [name for name in self.plan.rounds if name in comparable and name != study.round]
        return [study.round, *others]
