"""What a machine or a library cannot do, told without torch. Such a run is a row with its reason, never a gap."""

import os
import shutil
import sysconfig

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
    if spec.compile and (lacking := compiler_lacks(cpu=cpu)):
        return f"compile needs {lacking}, which this machine lacks"
    if cpu and (spec.pin_memory or spec.non_blocking):
        return "pin_memory and non_blocking are about the copy to a device: on a CPU there is none"
    return ""


def compiler_lacks(*, cpu: bool) -> str:
    """What ``torch.compile`` does not find here; empty where it finds all. For a CPU it writes C++, for a GPU Triton,
    whose launchers are C."""
    variable, usual = ("CXX", ("g++",)) if cpu else ("CC", ("gcc", "clang"))
    named = os.environ.get(variable)
    if not any(shutil.which(name) for name in ([named] if named else usual)):
        return f"a compiler ({variable}={named})" if named else f"a compiler ({' or '.join(usual)})"
    headers = sysconfig.get_path("include")
    return "" if os.path.exists(os.path.join(headers, "Python.h")) else f"Python's headers ({headers}/Python.h)"


def refused(spec: Spec) -> str:
    """What one of the strategies finds wrong with this run, for a user to mend; empty where nothing is."""
    return next(filter(None, (meta.refuses(spec) for meta in find_strategy(spec.strategy).factors)), "")
