"""A record and its arrays from a run's folder."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from breakeven.schema.errors import UserError
from breakeven.schema.record import STEP_ARRAYS, Record


@dataclass(frozen=True, slots=True)
class Run:
    """A record with the arrays of ``steps.npz``, named and shaped as ``schema.record.STEP_ARRAYS`` says."""

    record: Record
    steps: dict[str, NDArray[np.float64]]
    path: Path


def load_run(folder: Path) -> Run:
    """Raises UserError naming the file that is missing, damaged, or of a schema this version does not read."""
    path = folder / "record.json"
    try:
        record = Record.from_json(path.read_text())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path}: not a readable record ({error}). Delete its folder to measure the run again."
        ) from None
    steps_path = folder / "steps.npz"
    try:
        with np.load(steps_path, allow_pickle=False) as archive:
            steps = {name: archive[name].astype(float) for name in STEP_ARRAYS}
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{steps_path}: not readable ({error}). Delete its folder to measure the run again.") from None
    return Run(record, steps, path)
