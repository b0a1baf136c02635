"""One device, no parallelism: the base that every other strategy is held against."""

from typing import Any

from breakeven.schema.spec import Json


def apply(model: Any, device: Any, options: Json) -> Any:
    return model


def sync_wait_s(model: Any) -> float:
    return 0.0
