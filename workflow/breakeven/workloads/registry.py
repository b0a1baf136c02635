"""The one place where model families and techniques are looked up by name."""

import importlib
from pathlib import Path
from typing import Any

from breakeven.datasets.batches import Data
from breakeven.schema.spec import Spec

#: Family name to the module whose ``build(workload, data)`` makes it. Imported only when asked for: start-up is paid by
#: every run.
FAMILIES = {
    "mobilenet_v2": "breakeven.workloads.mobilenet_v2",
    "llama": "breakeven.workloads.llama",
}

#: Technique name to the module whose ``apply(model, options)`` turns a model into what is trained.
TECHNIQUES = {"lora": "breakeven.workloads.lora"}


def build_model(spec: Spec, data: Data, model_dir: Path | None) -> Any:
    """The ``nn.Module`` to train, on the CPU, in fp32, with weights that depend on the spec's seed alone."""
    import torch

    workload = spec.workload
    torch.manual_seed(spec.seed)
    if workload.model in FAMILIES:
        model = importlib.import_module(FAMILIES[workload.model]).build(workload, data)
    else:
        from breakeven.workloads import pretrained

        model = pretrained.build(workload, data, model_dir)
    if workload.technique != "full":
        technique = importlib.import_module(TECHNIQUES[workload.technique])
        model = technique.apply(model, workload.technique_options)
    return model.train()
