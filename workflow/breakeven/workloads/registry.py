"""The one place where model families and techniques are looked up by name."""

import importlib
from pathlib import Path
from typing import Any

from breakeven.datasets.batches import Data, Texts
from breakeven.schema.catalog import WORKLOADS
from breakeven.schema.spec import Spec
from breakeven.workloads.anatomy import Anatomy, bare
from breakeven.workloads.norms import with_running_averages

#: Technique name to the module whose ``apply(model, options)`` turns a model into what is trained.
TECHNIQUES = {"lora": "breakeven.workloads.lora"}


def build_model(spec: Spec, data: Data, model_dir: Path | None) -> Any:
    """The ``nn.Module`` to train, on the CPU, with weights that depend on the spec's seed alone; in fp32, or fp64."""
    import torch

    workload = spec.workload
    if isinstance(data, Texts):
        from breakeven.workloads.packing import never_packed

        never_packed()
    torch.manual_seed(spec.seed)
    if workload.model in WORKLOADS:
        model = _family(workload.model).build(workload, data)
    else:
        from breakeven.workloads import pretrained

        model = pretrained.build(workload, data, model_dir)
    model = with_running_averages(model)
    if workload.technique != "full":
        technique = importlib.import_module(TECHNIQUES[workload.technique])
        model = technique.apply(model, workload.technique_options)
    if spec.precision == "fp64":
        model = model.double()
    if spec.memory_format == "channels_last":
        model = model.to(memory_format=torch.channels_last)
    return model.train()


def anatomy(model: Any) -> Anatomy:
    """What the model's family tells of it; of another model, the longest list of layers in it as its blocks."""
    family = bare(model).config.model_type
    if family in WORKLOADS:
        found: Anatomy = _family(family).anatomy(bare(model))
        return found
    return Anatomy(blocks=longest_list(bare(model)))


def longest_list(model: Any) -> tuple[str, ...]:
    from torch import nn

    lists = {name: module for name, module in model.named_modules() if isinstance(module, nn.ModuleList)}
    longest = max(lists, key=lambda name: len(lists[name]), default=None)
    return tuple(f"{longest}.{i}" for i in range(len(lists[longest]))) if longest else ()


def _family(name: str) -> Any:
    """Imported only when asked for: start-up is paid by every run."""
    return importlib.import_module(f"breakeven.workloads.{name}")
