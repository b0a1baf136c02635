"""The one place where strategies are looked up by name: a module of that name does what its META says."""

import importlib
from collections.abc import Sequence
from typing import Any, Protocol, cast

from breakeven.schema.spec import Json
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.state import Parameter, State
from breakeven.strategies.trainee import Trainee


class Strategy(Protocol):
    """What a strategy's module holds beside META. Of ``local`` and ``state`` it has the one that its kind calls for."""

    def apply(self, trainee: Trainee, mesh: Mesh, options: Json) -> Trainee:
        """The trainee split along this strategy's axes. Called on every rank, in the order of ``compose``."""

    def local(self, parameters: Sequence[Parameter], trainee: Trainee, mesh: Mesh, options: Json) -> list[Parameter]:
        """A strategy that splits the model: what of these parameters this rank holds, by formula.

        ``trainee`` is as it was built, before any strategy.
        """

    def state(self, parameters: Sequence[Parameter], mesh: Mesh, options: Json, moments: int) -> State:
        """A strategy that splits the data: the bytes this rank holds of these parameters, by formula."""


def strategy(name: str) -> Any:
    """Imported only when asked for: start-up is paid by every run."""
    return cast(Strategy, importlib.import_module(f"breakeven.strategies.{name}"))
