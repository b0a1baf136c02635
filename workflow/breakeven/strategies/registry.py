"""The one place where strategies are looked up by name: ``schema.catalog.STRATEGIES`` says what they can do, a module
here does it."""

import importlib
from typing import Any, Protocol, cast

from breakeven.schema.spec import Json


class Strategy(Protocol):
    """What a strategy's module holds."""

    def apply(self, model: Any, device: Any, options: Json) -> Any:
        """The module that is trained, from one whose weights already lie on ``device``."""

    def sync_wait_s(self, model: Any) -> float:
        """Seconds of the last step spent in gradient synchronisation that compute did not hide; NaN where unknown."""


def strategy(name: str) -> Strategy:
    """Imported only when asked for: start-up is paid by every run."""
    return cast(Strategy, importlib.import_module(f"breakeven.strategies.{name}"))
