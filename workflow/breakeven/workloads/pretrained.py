"""A model with weights, a hub's fetched beforehand or a local folder's: for text or for images, as its data are."""

from pathlib import Path
from typing import Any

from breakeven.datasets.batches import Data, Images, Texts
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Workload


def build(workload: Workload, data: Data, model_dir: Path | None) -> Any:
    """Weights in fp32, from safetensors alone. ``config`` overrides the model's own."""
    folder = model_dir or Path(workload.model)
    if not folder.is_dir():
        raise UserError(
            f"Model {workload.model!r}: no folder {folder}. Give a local model folder, or fetch the model first "
            "(python -m breakeven.datasets.fetch)."
        )
    return _language_model(workload, data, folder) if isinstance(data, Texts) else _classifier(workload, data, folder)


def _language_model(workload: Workload, data: Texts, folder: Path) -> Any:
    from transformers.models.auto.modeling_auto import AutoModelForCausalLM

    model = _load(AutoModelForCausalLM, workload, folder, {"use_cache": False})
    embeddings = model.get_input_embeddings().num_embeddings
    if data.input_ids.max() >= embeddings:
        raise UserError(
            f"{workload.model}: has {embeddings} embeddings, but the data holds token {int(data.input_ids.max())}. "
            "The folder's tokenizer is not this model's."
        )
    return model


def _classifier(workload: Workload, data: Images, folder: Path) -> Any:
    """With a head of the data's classes: where the weights' own has others, one drawn from the seed."""
    from transformers.models.auto.modeling_auto import AutoModelForImageClassification

    heads = {"num_labels": data.classes, "ignore_mismatched_sizes": True, "output_loading_info": True}
    model, loaded = _load(AutoModelForImageClassification, workload, folder, heads)
    for name, found, wanted in sorted(loaded["mismatched_keys"]):  # a set, in no order
        if wanted[0] != data.classes or tuple(found[1:]) != tuple(wanted[1:]):
            raise UserError(
                f"{workload.model}: weight {name} is of shape {tuple(found)}, but the config asks for {tuple(wanted)}. "
                "Leave out of workload.config what changes the shape of the model."
            )
    config = model.config
    if hasattr(config, "patch_size") and config.image_size != workload.image_size:
        raise UserError(
            f"{workload.model}: has a place for every patch of {config.image_size} pixels. Use image_size "
            f"{config.image_size}, not {workload.image_size}."
        )
    return model


def _load(kind: Any, workload: Workload, folder: Path, settings: dict[str, Any]) -> Any:
    import torch

    try:
        return kind.from_pretrained(
            str(folder),
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=workload.trust_remote_code,
            dtype=torch.float32,
            **{**settings, **workload.config},
        )
    except (OSError, ValueError) as error:
        first = str(error).strip().split("\n", 1)[0]
        raise UserError(f"{folder}: no model of this kind that transformers can read ({first}).") from None
