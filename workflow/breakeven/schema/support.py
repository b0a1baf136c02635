"""What a machine or a library cannot do, told without torch. Such a run is a row with its reason, never a gap."""

from breakeven.schema.spec import Spec
from breakeven.schema.strategies import find_strategy


def unsupported(spec: Spec) -> str:
    """Why this run cannot be; empty where it can."""
    product = find_strategy(spec.strategy)
    cpu = spec.device_kind == "cpu"
    if spec.device_kind not in product.device_kinds:
        return f"{product.name} runs on {' and '.join(product.device_kinds)} alone, not on {spec.device_kind}"
    if cpu and spec.precision == "tf32":
        return "tf32 is a type of NVIDIA's tensor cores: a CPU has none"
    if cpu and (spec.pin_memory or spec.non_blocking):
        return "pin_memory and non_blocking are about the copy to a device: on a CPU there is none"
    return ""


def refused(spec: Spec) -> str:
    """What one of the strategies finds wrong with this run, for a user to mend; empty where nothing is."""
    return next(filter(None, (meta.refuses(spec) for meta in find_strategy(spec.strategy).factors)), "")
