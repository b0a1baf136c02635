"""Strategies as the planner knows them: found by file name, asked for their metadata alone, never importing torch.

``breakeven/strategies/<name>.py`` is the strategy ``<name>``; a product of several is written ``fsdp*tp``.
"""

import difflib
import functools
import importlib
import re
from dataclasses import dataclass
from pathlib import Path

from breakeven.schema.degrees import AXES, Axis
from breakeven.schema.errors import UserError
from breakeven.schema.strategy import KINDS, Kind, Need, Option, StrategyMeta

FOLDER = Path(__file__).resolve().parents[1] / "strategies"

#: The line by which a file of that folder is a strategy; the others are what strategies share.
_MARK = re.compile(r"^META\b.*=", re.MULTILINE)


@functools.cache
def known_strategies() -> tuple[str, ...]:
    """Every strategy there is a file for, in alphabetical order."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.py") if _MARK.search(file.read_text())))


@functools.cache
def strategy_meta(name: str) -> StrategyMeta:
    """Raises UserError where there is no such file, or it does not say what it is."""
    file = f"strategies/{name}.py"
    if name not in known_strategies():
        if name.isidentifier() and (FOLDER / f"{name}.py").is_file():
            raise UserError(f"{file} is no strategy: no line of it begins with 'META ='.")
        near = difflib.get_close_matches(name, known_strategies(), n=1)
        hint = f"Did you mean '{near[0]}'?" if near else f"Known: {', '.join(known_strategies())}."
        raise UserError(f"strategy '{name}' is unknown. {hint}")
    try:
        module = importlib.import_module(f"breakeven.strategies.{name}")
        meta = module.META
    except Exception as error:  # whatever a file of the user's does wrong
        raise UserError(f"{file}: cannot be read ({type(error).__name__}: {error}).") from None
    if not isinstance(meta, StrategyMeta) or meta.name != name:
        raise UserError(f"{file}: META must be a StrategyMeta named '{name}'.")
    for function in ("apply", "state") if meta.kind == "data" else ("apply",):
        if not callable(getattr(module, function, None)):
            raise UserError(f"{file}: has no function '{function}', which a strategy of kind '{meta.kind}' needs.")
    return meta


@dataclass(frozen=True, slots=True)
class Product:
    """One strategy, or several that split different things. ``factors`` are in the order of ``KINDS``."""

    factors: tuple[StrategyMeta, ...]

    @property
    def name(self) -> str:
        return "*".join(meta.name for meta in self.factors)

    @property
    def title(self) -> str:
        return " x ".join(meta.title for meta in self.factors)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Outermost first."""
        held = {axis for meta in self.factors for axis in meta.axes}
        return tuple(axis for axis in AXES if axis in held)

    @property
    def device_kinds(self) -> tuple[str, ...]:
        return tuple(k for k in ("cpu", "cuda") if all(k in meta.device_kinds for meta in self.factors))

    @property
    def max_devices(self) -> int | None:
        return min((meta.max_devices for meta in self.factors if meta.max_devices), default=None)

    @property
    def one_process(self) -> bool:
        return any(meta.one_process for meta in self.factors)

    @property
    def needs(self) -> tuple[Need, ...]:
        return tuple(dict.fromkeys(need for meta in self.factors for need in meta.needs))

    @property
    def options(self) -> dict[str, Option]:
        """Of all factors; no two have one of the same name."""
        return {name: option for meta in self.factors for name, option in meta.options.items()}

    def of_kind(self, kind: Kind) -> StrategyMeta | None:
        return next((meta for meta in self.factors if meta.kind == kind), None)


@functools.cache
def find_strategy(text: str) -> Product:
    """``ddp``, ``fsdp*tp``. Raises UserError for an unknown factor, or factors that make no product."""
    names = [name.strip() for name in re.split(r"[*×]", text)]
    if not all(names):
        raise UserError(f"strategy '{text}': a factor is missing. Write one name, or several with a * between.")
    factors = tuple(sorted((strategy_meta(name) for name in names), key=lambda meta: KINDS.index(meta.kind)))
    for first in factors:
        for second in factors:
            if first is second:
                continue
            if first.kind == second.kind:
                raise UserError(
                    f"strategy '{text}': {first.name} and {second.name} split the same thing ({first.kind})."
                )
            if second.kind not in first.combines:
                raise UserError(f"strategy '{text}': {first.name} makes no product with {second.name}.")
    if len(set(names)) < len(names):
        raise UserError(f"strategy '{text}': a factor stands twice.")
    return Product(factors)
