"""Files to models: every error of a user's file becomes one message that names file, line and what would be right."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError

from breakeven.config.models import Config, MeasuredStudy, Platform, PointsStudy, Study, WorkloadConfig
from breakeven.config.places import Place, Places
from breakeven.config.text import MAX_NAME, is_name
from breakeven.config.values import CONFIG, TECHNIQUE_OPTIONS, faults, shown
from breakeven.config.yamlfile import YamlFile
from breakeven.schema.catalog import WORKLOADS
from breakeven.schema.errors import UserError
from breakeven.schema.spec import slug

#: An entry of 'studies' that ends so is a path.
_SUFFIXES = (".yaml", ".yml", ".csv")


def closest(word: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` or, where nothing is close, the list of what is known."""
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1)
    return f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(sorted(names))}."


def explain(error: ValidationError, file: Place | None, name: str, model: type[BaseModel] | None = None) -> UserError:
    """A pydantic error in the user's words: the first problem of each place, a line each."""
    lines = []
    tag = source_of(model)
    for problem in error.errors(include_url=False):
        location = problem["loc"]
        where = file.where(location) if file else name
        # a union's tag stands first in the place that pydantic names
        path = ".".join(str(part) for part in location[1 if location[:1] == (tag,) else 0 :])
        if problem["type"] == "extra_forbidden":
            known = _known_keys(model, location[:-1])
            hint = closest(str(location[-1]), known) if known else ""
            message = f"unknown key '{location[-1]}'. {hint}".rstrip()
        elif problem["type"] == "missing":
            message = f"key '{path}' is missing."
        elif problem["type"] == "too_short":
            message = f"'{path}' is empty: at least one is needed."
        else:
            message = f"'{path}': {problem['msg'].removeprefix('Value error, ')}." if path else problem["msg"]
            if not isinstance(problem["input"], dict | list):
                message += f" Found {shown(problem['input'])}."
        lines.append(f"{where}: {message}")
    return UserError("\n".join(dict.fromkeys(lines)))


def source_of(model: type[BaseModel] | None) -> str | None:
    """The value of ``source`` that a study's model stands for; None for other models."""
    field = model.model_fields.get("source") if model else None
    return str(get_args(field.annotation)[0]) if field else None


def _known_keys(model: Any, location: tuple[int | str, ...]) -> list[str]:
    """The keys allowed at a place of a model, following fields, mappings and unions by name."""
    candidates = [model] if model else []
    for part in location:
        following: list[Any] = []
        for candidate in candidates:
            if isinstance(candidate, type) and issubclass(candidate, BaseModel):
                field = candidate.model_fields.get(str(part))
                # a union's tag stands in pydantic's location but is no key of the file
                following.extend(_models_in(field.annotation) if field else [candidate])
        candidates = following
    keys: list[str] = []
    for candidate in candidates:
        keys.extend(candidate.model_fields)
    return keys


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]


def load_config(raw: Mapping[str, Any], path: Path, places: Places | None = None) -> Config:
    """The workflow's config as Snakemake merged it. ``places`` knows who wrote what; default: all of it ``path``."""
    places = places or Places.of(raw, [path])
    try:
        config = Config.model_validate(dict(raw))
    except ValidationError as error:
        raise explain(error, places, str(path), Config) from None
    for number, entry in enumerate(config.studies):
        if not is_name(study_name(entry)):
            raise UserError(f"{places.where(['studies', number])}: {_misnamed(entry)}")
    return config


def _misnamed(entry: str) -> str:
    rule = f"at most {MAX_NAME} letters a-z, digits, '.', '_' and '-', the first a letter or digit"
    if entry.endswith(_SUFFIXES):
        return f"'studies': the study's name comes from its file's, so {shown(entry)} must be renamed: {rule}."
    return (
        f"'studies': {shown(entry)} is no name of a study ({rule}). Name a file in the folder 'studies' without "
        "its suffix, or give a path that ends in .yaml or .csv."
    )


def load_platform(name: str, folder: Path) -> Platform:
    path = folder / f"{name}.yaml"
    if not path.is_file():
        raise UserError(f"{path}: no such platform. {closest(name, [p.stem for p in folder.glob('*.yaml')])}")
    file = YamlFile(path)
    try:
        return Platform.model_validate(file.data)
    except ValidationError as error:
        raise explain(error, file, str(path), Platform) from None


def study_path(name: str, folder: Path) -> Path:
    return Path(name) if name.endswith(_SUFFIXES) else folder / f"{name}.yaml"


def study_name(name: str) -> str:
    """The folder of a study under ``results/studies``: its file's name, made safe."""
    if name.endswith(".csv"):
        return slug(Path(name).stem)
    return Path(name).stem if name.endswith(_SUFFIXES) else name


def load_study(name: str, folder: Path) -> tuple[Any, YamlFile | None]:
    """A study and the file it came from; a CSV table named directly is a study with every default."""
    path = study_path(name, folder)
    if not path.is_file():
        hint = closest(name, [p.stem for p in folder.glob("*.yaml")])
        raise UserError(f"{path}: no such study (named in config 'studies'). {hint}")
    if path.suffix == ".csv":
        try:
            return PointsStudy(source="points", title=path.stem, table=str(path)), None
        except ValidationError as error:
            raise explain(error, None, f"{path}: the file's name is the study's title", None) from None
    file = YamlFile(path)
    source = file.data.get("source")
    kinds = {"measured", "mlperf", "points"}
    if not isinstance(source, str) or source not in kinds:
        found = f"found {source!r}" if "source" in file.data else "it is missing"
        raise UserError(f"{file.where(['source'])}: key 'source' must be one of {', '.join(sorted(kinds))}; {found}.")
    adapter: TypeAdapter[Any] = TypeAdapter(Study)
    try:
        study = adapter.validate_python(file.data)
    except ValidationError as error:
        model = next(m for m in _models_in(Study) if source_of(m) == source)
        raise explain(error, file, str(path), model) from None
    if isinstance(study, MeasuredStudy):
        _refuse_values(study.workload, file)
    return study, file


def _refuse_values(workload: WorkloadConfig, file: YamlFile) -> None:
    """A hub model's or a folder's config is its own; of a family's keys, and a technique's, we know what they hold."""
    checks = [("technique_options", faults(workload.technique_options, TECHNIQUE_OPTIONS))]
    if workload.model in WORKLOADS:
        checks.append(("config", faults(workload.config, CONFIG)))
    lines = [
        f"{file.where(['workload', part, key])}: workload.{part}.{key} {message}"
        for part, found in checks
        for key, message in found
    ]
    if lines:
        raise UserError("\n".join(lines))
