"""A small Llama from a config: a causal language model with weights drawn from the seed."""

from typing import Any

from breakeven.datasets.batches import Data, Texts
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Json, Workload

#: Small enough for a core, large enough that two cores beat one (below hidden 128 communication outweighs the gain).
DEFAULTS: Json = {
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
}


def build(workload: Workload, data: Data) -> Any:
    """``config`` overrides DEFAULTS, which override LlamaConfig."""
    # Their own modules: ``import transformers`` by name alone would resolve every model family.
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaForCausalLM

    if not isinstance(data, Texts):
        raise UserError(f"llama needs text, but data set {workload.data.name!r} is images.")
    settings = {
        **DEFAULTS,
        "vocab_size": data.vocab_size,
        "max_position_embeddings": data.sequence_length,
        "pad_token_id": data.pad_id,
        **workload.config,
        "use_cache": False,  # keys and values of earlier calls: training has none
    }
    return LlamaForCausalLM(LlamaConfig(**settings))
