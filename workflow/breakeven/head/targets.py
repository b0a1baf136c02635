"""The files behind every target, and the table that ``snakemake help`` prints."""

from dataclasses import dataclass
from typing import Any

from breakeven.head.drawing import Drawing
from breakeven.head.plan import Plan
from breakeven.head.rounds import ROUNDS
from breakeven.head.study import STUDIES, StudyPlan

TABLES = ("points.csv", "efficiency.csv", "breakeven.csv")
MEASURED_TABLES = ("runs.csv", "equivalence.csv", "comparison.csv")
ROUND_TABLES = ("runs.csv", "anomalies.csv", "scores.csv", "critical_batch.csv", "reference.csv")
REPORT = "results/report.html"
ANSWER = "results/answer.txt"
EQUIVALENCE = "results/equivalence/table.csv"
SELFTEST = "results/selftest.txt"


@dataclass(frozen=True, slots=True, repr=False)
class Targets:
    """What each target rule asks for. Every table is asked for by name, so that a deleted one is made again."""

    plan: Plan

    def everything(self) -> list[str]:
        # Not the data: once a run is recorded its data are no longer needed, and making lost ones again would, to
        # Snakemake, make every run that read them old.
        return [*self.records(), *self.report_inputs(), *self.report()]

    def plans(self, source: str) -> list[str]:
        return [f"{STUDIES}/{study.name}/plan.json" for study in self.plan.of(source)]

    def data(self) -> list[str]:
        prepared = [f"results/data/{name}.npz" for name in self.plan.data_runs()]
        return [*prepared, *(f"results/models/{name}" for name in self.plan.hub_models())]

    def records(self) -> list[str]:
        """Records and their arrays: a run that lost either is measured again."""
        return list(dict.fromkeys(path for s in self.plan.of("measured") for path in (*s.records(), *s.steps())))

    def rounds(self) -> list[str]:
        return [f"{ROUNDS}/{name}/{table}" for name in self.plan.rounds for table in ROUND_TABLES]

    def published(self) -> list[str]:
        return [*self.rounds(), *(path for study in self.plan.of("mlperf") for path in self._study(study))]

    def figures(self) -> list[str]:
        return [path for study in self.plan.studies.values() for path in Drawing(self.plan).files(study)]

    def report_inputs(self) -> list[str]:
        return [*self.rounds(), *(path for study in self.plan.studies.values() for path in self._study(study))]

    def report(self) -> list[str]:
        return [REPORT, ANSWER]

    def equivalence(self) -> list[str]:
        return [EQUIVALENCE]

    def selftest(self) -> list[str]:
        return [SELFTEST]

    def results(self) -> dict[str, list[str]]:
        """Each target's name and where a person finds what it makes."""
        studies = [f"{STUDIES}/{study.name}/" for study in self.plan.studies.values()]
        rounds = [f"{ROUNDS}/{name}/" for name in self.plan.rounds]
        published = [*rounds, *(f"{STUDIES}/{study.name}/" for study in self.plan.of("mlperf"))]
        return {
            "all": [REPORT, ANSWER, *studies, *rounds],
            "plan": [],
            "data": [
                "results/data/",
                *(["results/models/"] if self.plan.hub_models() else []),
                *(["results/images/"] if self.plan.hub_images() else []),
            ],
            "mlperf": published,
            "measure": ["results/runs/"],
            "figures": [f"{path}figures/" for path in studies],
            "report": [REPORT, ANSWER],
            "equivalence": self.equivalence(),
            "selftest": self.selftest(),
            "help": [],
        }

    def _study(self, study: StudyPlan) -> list[str]:
        folder = f"{STUDIES}/{study.name}"
        tables = (*TABLES, *MEASURED_TABLES) if study.source == "measured" else TABLES
        figures = Drawing(self.plan).files(study)
        return [f"{folder}/plan.json", *(f"{folder}/tables/{table}" for table in tables), *figures]


def help_table(workflow: Any, results: dict[str, list[str]]) -> str:
    """A line per target: the command, the rule's docstring, and where its results are."""
    commands = {name: "snakemake" if name == "all" else f"snakemake {name}" for name in results}
    width = max(map(len, commands.values()))
    lines = []
    for name, command in commands.items():
        lines.append(f"{command:<{width}}  {_doc(workflow, name)}")
        if results[name]:
            lines.append(f"{'':<{width}}    -> {', '.join(results[name])}")
    return "\n".join(lines)


def _doc(workflow: Any, name: str) -> str:
    return " ".join((workflow.get_rule(name).docstring or "").split())
