# The plan of this invocation and the names rules look things up by. The package decides; rules ask.
from breakeven.figures.kinds import KINDS
from breakeven.head.drawing import Drawing
from breakeven.head.hooks import announce, config_files, guarded, prepare, start
from breakeven.head.keep import kept
from breakeven.head.plan import make_plan
from breakeven.head.selftest import OOM_MEMORY_GIB, Suites
from breakeven.head.sources import sources
from breakeven.head.study import RUNS
from breakeven.head.targets import Targets, help_table

prepare(workflow)
PLAN = guarded(
    lambda: make_plan(
        config, config_files(workflow), workflow.config_settings.config, kept(workflow)
    )
)
TARGETS = Targets(PLAN)
SUITES = Suites(PLAN.config.check_platform)
DRAWING = Drawing(PLAN)
announce(workflow, TARGETS.results())


wildcard_constraints:
    study=r"[A-Za-z0-9][A-Za-z0-9._-]*",
    workload=r"[a-z0-9_-]+",
    run_id=r"[a-z0-9_-]+",
    repeat=r"[1-9][0-9]*",
    data_id=r"[a-z0-9_-]+",
    model=r"[a-z0-9_-]+",
    images=r"[a-z0-9_-]+",
    figure="|".join(KINDS),
    suite="equivalence|selftest",
    fault="oom|hang",
    round=r"v[0-9]+\.[0-9]+",
