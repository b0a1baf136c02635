"""A study's ``plan.json``, as the rules that follow the plan read it."""

import json
from pathlib import Path

from breakeven.schema.errors import UserError
from breakeven.schema.spec import Json


def read_plan(path: Path, *keys: str) -> Json:
    """The plan, which has at least ``keys``. Raises UserError naming a file that is missing, damaged or no plan."""
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: not a readable plan ({error}). Delete it: snakemake writes it again.") from None
    if not isinstance(plan, dict) or (missing := [key for key in keys if key not in plan]):
        reason = f"no '{missing[0]}' in it" if isinstance(plan, dict) else "not an object"
        raise UserError(f"{path}: not a study's plan ({reason}). Delete it: snakemake writes it again.")
    return plan
