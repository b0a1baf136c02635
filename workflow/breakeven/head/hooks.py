"""The few places where the head looks into Snakemake: its targets, the jobs it will run, how it ends."""

import atexit
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from breakeven.config.yamlfile import YamlFile
from breakeven.head.guard import refuse_measuring_on_login_node, refuse_missing_profile
from breakeven.head.lock import take
from breakeven.schema.errors import UserError
from breakeven.schema.files import write_text
from breakeven.schema.spec import canonical_json

LOCK = Path("results/.lock")
#: The rules whose jobs are measured runs.
MEASURING_RULES = ("measure_run", "selftest_run", "selftest_fault")
CONFIG = Path("config/config.yaml")
PROGRESS = Path("results/.progress.json")


def fail(error: UserError) -> None:
    """End the head with one message and exit code 2, without the traceback that Snakemake would add."""
    print(f"breakeven: {error}", file=sys.stderr, flush=True)
    # Snakemake's main catches SystemExit; nothing runs yet and nothing is open, so leave at once.
    os._exit(2)


def guarded(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except UserError as error:
        fail(error)


def is_head(workflow: Any) -> bool:
    """False in the processes that Snakemake starts for single jobs: they read the Snakefile again."""
    return bool(workflow.exec_mode.name == "DEFAULT")


def check_config_files(workflow: Any) -> None:
    """Read the config file once before Snakemake does, so that what is wrong with it has a file and a line."""
    if is_head(workflow):
        guarded(lambda: YamlFile(CONFIG))


def config_files(workflow: Any) -> list[Path]:
    """The files that the config was merged from, the most binding first."""
    named = [Path(os.path.relpath(path)) for path in reversed(workflow.overwrite_configfiles)]
    return [*named, CONFIG]


def prepare(workflow: Any) -> None:
    """Environment of every job: the package by PYTHONPATH, this interpreter first, whatever was activated."""
    package = str(Path(workflow.basedir) / "workflow")
    for name, value in (("PYTHONPATH", package), ("PATH", str(Path(sys.executable).parent))):
        parts = [part for part in os.environ.get(name, "").split(os.pathsep) if part]
        if value not in parts[:1]:
            os.environ[name] = os.pathsep.join([value, *parts])
    if is_head(workflow):
        guarded(lambda: refuse_missing_profile(sys.argv, Path(workflow.basedir)))


def start(workflow: Any) -> None:
    """Just before the first job: refuse what must not run here, take the lock, note what will be measured."""
    if not is_head(workflow):
        return
    records = [
        str(output)
        for job in workflow.dag.needrun_jobs()
        if job.rule.name in MEASURING_RULES
        for output in job.output[:1]
    ]
    executor = str(getattr(workflow.executor_plugin, "name", "local"))

    def checks() -> None:
        refuse_measuring_on_login_node(os.environ, executor, records)
        take(LOCK)

    guarded(checks)
    write_text(PROGRESS, canonical_json({"records": records, "started_at": time.time()}))


def announce(workflow: Any, results: dict[str, list[str]]) -> None:
    """When the head ends, also with nothing to do: say where each requested target's results are."""
    if not is_head(workflow):
        return

    def say() -> None:
        # Only where no job is left to run: else what lies there may be older than what was asked for. A dry run that
        # ends counts its jobs as finished.
        if workflow.dag is None or workflow.dryrun or any(True for _ in workflow.dag.needrun_jobs()):
            return
        targets = workflow.dag_settings.targets if workflow.dag_settings else None
        for target in targets or ["all"]:
            found = [path for path in results.get(str(target), []) if Path(path).exists()]
            if found:
                print(f"{target}: {', '.join(found)}", file=sys.stderr)

    atexit.register(say)
