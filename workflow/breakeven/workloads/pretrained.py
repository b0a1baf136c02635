"""A causal language model with weights: a hub model fetched beforehand, or a local folder."""

from pathlib import Path
from typing import Any

from breakeven.datasets.batches import Data, Texts
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Workload


def build(workload: Workload, data: Data, model_dir: Path | None) -> Any:
    """Weights in fp32, from safetensors alone. ``config`` overrides the model's own."""
    from transformers.models.auto.modeling_auto import AutoModelForCausalLM

    folder = model_dir or Path(workload.model)
    if not folder.is_dir():
        raise UserError(
            f"Model {workload.model!r}: no folder {folder}. Give a local model folder, or fetch the model first "
            "(python -m breakeven.datasets.fetch)."
        )
    if not isinstance(data, Texts):
        raise UserError(f"{workload.model}: needs text, but data set {workload.data.name!r} is images.")
    import torch

    model = AutoModelForCausalLM.from_pretrained(
        str(folder),
        local_files_only=True,
        use_safetensors=True,
        trust_remote_code=workload.trust_remote_code,
        dtype=torch.float32,
        **{"use_cache": False, **workload.config},
    )
    embeddings = model.get_input_embeddings().num_embeddings
    if data.input_ids.max() >= embeddings:
        raise UserError(
            f"{workload.model}: has {embeddings} embeddings, but the data holds token {int(data.input_ids.max())}. "
            "The folder's tokenizer is not this model's."
        )
    return model
