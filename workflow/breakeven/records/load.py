"""A record and its arrays from a run's folder."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from breakeven.schema.errors import UserError
from breakeven.schema.record import STEP_ARRAYS, Record

Steps = dict[str, NDArray[np.float64]]
REMEDY = "Delete its folder to measure the run again."


@dataclass(frozen=True, slots=True)
class Run:
    """A record with the arrays of ``steps.npz``, named and shaped as ``schema.record.STEP_ARRAYS`` says."""

    record: Record
    steps: Steps
    path: Path


def load_run(folder: Path) -> Run:
    """``folder``: ``<run_id>/r<repeat>``.

    Raises UserError naming the file that is missing, damaged, another run's, or of a schema this version does not read.
    """
    path = folder / "record.json"
    record = _record(path)
    place = f"{record.run_id}/r{record.repeat}"
    if place != "/".join(folder.absolute().parts[-2:]):
        raise UserError(f"{path}: the record of {place}, not of this folder. {REMEDY}")
    steps_path = folder / "steps.npz"
    steps = _steps(steps_path)
    if wrong := _wrong_shape(steps, record.spec.ranks):
        raise UserError(f"{steps_path}: not readable ({wrong}). {REMEDY}")
    return Run(record, steps, path)


def _record(path: Path) -> Record:
    try:
        return Record.from_json(path.read_text(encoding="utf-8"))
    # JSON that is no record (a list, null, a text) fails as an attribute or a type
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{path}: not a readable record ({_said(error)}). {REMEDY}") from None


def _steps(path: Path) -> Steps:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name].astype(float) for name in STEP_ARRAYS}
    # A flipped bit can end anywhere in zipfile, zlib or numpy (BadZipFile, EOFError, NotImplementedError, MemoryError).
    except Exception as error:
        raise UserError(f"{path}: not readable ({_said(error)}). {REMEDY}") from None


def _said(error: Exception) -> str:
    return str(error).strip() or type(error).__name__


def _wrong_shape(steps: Steps, ranks: int) -> str:
    """What is not (R, U), (U,) or (E,) as ``STEP_ARRAYS`` says; empty where all is."""
    updates, evaluations = steps["step_s"].shape[-1:], steps["evaluated_at"].shape[-1:]
    shapes = {"(R, U)": (ranks, *updates), "(U,)": updates, "(E,)": evaluations}
    for name, meaning in STEP_ARRAYS.items():
        shape = shapes[meaning[: meaning.index(")") + 1]]
        if steps[name].shape != shape:
            return f"{name} has shape {steps[name].shape}, not {shape}"
    return ""
