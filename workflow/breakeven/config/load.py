"""Files to models: every error of a user's file becomes one message that names file, line and what would be right."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError

from breakeven.config.models import Config, Platform, PointsStudy, Study
from breakeven.config.yamlfile import YamlFile
from breakeven.schema.errors import UserError
from breakeven.schema.spec import slug

Model = TypeVar("Model", bound=BaseModel)


def closest(word: str, known: Iterable[str]) -> str:
    """`` Did you mean 'x'?`` or, where nothing is close, the list of what is known."""
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1)
    return f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(sorted(names))}."


def explain(
    error: ValidationError, file: YamlFile | None, name: str, model: type[BaseModel] | None = None
) -> UserError:
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
                message += f" Found {problem['input']!r}."
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


def load_config(raw: Mapping[str, Any], path: Path) -> Config:
    """The workflow's config as Snakemake merged it; ``path`` is the file the user most likely wrote it in."""
    try:
        return Config.model_validate(dict(raw))
    except ValidationError as error:
        raise explain(error, YamlFile(path) if path.is_file() else None, str(path), Config) from None


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
    return Path(name) if name.endswith((".yaml", ".yml", ".csv")) else folder / f"{name}.yaml"


def study_name(name: str) -> str:
    """The folder of a study under ``results/studies``: its file's name, made safe."""
    return (
        Path(name).stem
        if name.endswith((".yaml", ".yml"))
        else slug(Path(name).stem)
        if name.endswith(".csv")
        else name
    )


def load_study(name: str, folder: Path) -> tuple[Any, YamlFile | None]:
    """A study and the file it came from; a CSV table named directly is a study with every default."""
    path = study_path(name, folder)
    if not path.is_file():
        hint = closest(name, [p.stem for p in folder.glob("*.yaml")])
        raise UserError(f"{path}: no such study (named in config 'studies'). {hint}")
    if path.suffix == ".csv":
        return PointsStudy(source="points", title=path.stem, table=str(path)), None
    file = YamlFile(path)
    source = file.data.get("source")
    kinds = {"measured", "mlperf", "points"}
    if source not in kinds:
        found = f"found {source!r}" if "source" in file.data else "it is missing"
        raise UserError(f"{file.where(['source'])}: key 'source' must be one of {', '.join(sorted(kinds))}; {found}.")
    adapter: TypeAdapter[Any] = TypeAdapter(Study)
    try:
        return adapter.validate_python(file.data), file
    except ValidationError as error:
        model = next(m for m in _models_in(Study) if source_of(m) == source)
        raise explain(error, file, str(path), model) from None
