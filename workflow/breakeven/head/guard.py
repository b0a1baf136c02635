"""What is refused before anything runs, and what Snakemake would let pass in silence."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from breakeven.schema.errors import UserError


def refuse_missing_profile(argv: Sequence[str], base: Path) -> None:
    """Snakemake runs without any profile where the one named does not exist; measured runs would then overlap."""
    name = option(argv, "--workflow-profile")
    if name is None or name == "none":
        return
    candidates = [Path(name), Path("profiles") / name, base / "profiles" / name]
    if not any(path.exists() for path in candidates):
        known = sorted(path.name for path in (base / "profiles").iterdir() if path.is_dir())
        raise UserError(
            f"--workflow-profile {name}: no such profile. Known: {', '.join(f'profiles/{n}' for n in known)}."
        )


def option(argv: Sequence[str], name: str) -> str | None:
    for i, word in enumerate(argv):
        if word == name and i + 1 < len(argv):
            return argv[i + 1]
        if word.startswith(f"{name}="):
            return word.split("=", 1)[1]
    return None


def refuse_measuring_on_login_node(environ: Mapping[str, str], executor: str, records: Sequence[str]) -> None:
    """On a machine that submits to Slurm, measuring outside a job would measure the login node."""
    if not records or executor == "slurm" or "SLURM_JOB_ID" in environ or environ.get("BREAKEVEN_MEASURE_HERE") == "1":
        return
    if shutil.which("sbatch", path=environ.get("PATH", os.defpath)):
        raise UserError(
            f"{len(records)} runs would be measured on this machine, which submits jobs to Slurm (sbatch is here) and "
            "is likely a login node. Use `snakemake --workflow-profile profiles/slurm`, or set "
            "BREAKEVEN_MEASURE_HERE=1 if this machine is meant to be measured."
        )
