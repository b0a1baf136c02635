"""Sizes that do not go together although each alone is right: what a model library would say in the middle of a run."""

from collections.abc import Iterator

from breakeven.schema.catalog import WORKLOADS
from breakeven.schema.spec import Json, Workload


def misfits(workload: Workload, model: Json) -> Iterator[str]:
    """What is wrong and what would be right. ``model``: what is known of the model's config, defaults included."""
    yield from _patches(workload, model)
    yield from _heads(model)
    sizes, depths = model.get("hidden_sizes"), model.get("depths")
    if isinstance(sizes, list) and isinstance(depths, list) and len(sizes) != len(depths):
        yield f"hidden_sizes is of {len(sizes)} stages and depths of {len(depths)}. Give each stage one of both."


def _patches(workload: Workload, model: Json) -> Iterator[str]:
    size, patch, own = workload.image_size, model.get("patch_size"), model.get("image_size")
    if size is None or not isinstance(patch, int):
        return
    if workload.model not in WORKLOADS and isinstance(own, int) and own != size:
        yield f"model '{workload.model}' has a place for every patch of {own} pixels. Use image_size {own}, not {size}."
    elif size % patch:
        near = max(patch, size // patch * patch)
        yield (
            f"image_size {size} does not divide into patches of {patch}. Use a multiple of it, such as {near} or "
            f"{near + patch}, or another patch_size (workload.config)."
        )


def _heads(model: Json) -> Iterator[str]:
    hidden, heads = model.get("hidden_size"), model.get("num_attention_heads")
    if not isinstance(hidden, int) or not isinstance(heads, int):
        return
    if hidden % heads and model.get("head_dim") is None:
        yield f"hidden_size {hidden} does not divide among {heads} attention heads. Use a multiple of {heads}."
    shared = model.get("num_key_value_heads")
    if isinstance(shared, int) and heads % shared:
        yield f"num_attention_heads {heads} is no multiple of num_key_value_heads {shared}."
