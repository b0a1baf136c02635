"""A small Llama from a config: a causal language model with weights drawn from the seed."""

import math
from typing import Any

from breakeven.datasets.batches import Data, Texts
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Json, Workload
from breakeven.workloads.anatomy import Anatomy, SequencePlan, TensorPlan

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


def anatomy(model: Any) -> Anatomy:
    layers = [f"model.layers.{i}" for i in range(model.config.num_hidden_layers)]
    columns = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
    rows = ("self_attn.o_proj", "mlp.down_proj")
    norms = ("input_layernorm", "post_attention_layernorm")
    return Anatomy(
        blocks=tuple(layers),
        tensor_plan=TensorPlan(
            linears={
                **{f"{layer}.{name}": "column" for layer in layers for name in columns},
                **{f"{layer}.{name}": "row" for layer in layers for name in rows},
            },
            inputs=tuple(f"{layer}.{name}" for layer in layers for name in ("self_attn", "mlp")),
            embedding="model.embed_tokens",
            head="lm_head",
        ),
        sequence_plan=SequencePlan(norms=("model.norm", *(f"{layer}.{name}" for layer in layers for name in norms))),
        heads=math.gcd(model.config.num_attention_heads, model.config.num_key_value_heads),
        pieces=pieces,
        attention=lambda model, name: model.set_attn_implementation(name),
    )


def pieces(model: Any) -> list[Any]:
    """Embedding, each layer, norm and head: called one after the other they are the model."""
    from torch import nn

    class Embedding(nn.Module):
        def __init__(self, decoder: Any) -> None:
            super().__init__()
            self.embed_tokens = decoder.embed_tokens

        def forward(self, input_ids: Any) -> Any:
            return self.embed_tokens(input_ids)

    class Layer(nn.Module):
        def __init__(self, layer: Any, rotary: Any) -> None:
            super().__init__()
            self.layer, self.rotary = layer, rotary

        def forward(self, hidden: Any) -> Any:
            # Every sample begins at position 0. Without a mask attention is causal.
            positions = torch.arange(hidden.shape[1], device=hidden.device)[None]
            cosines_and_sines = self.rotary(hidden, position_ids=positions)
            return self.layer(
                hidden, attention_mask=None, position_ids=positions, position_embeddings=cosines_and_sines
            )

    class Head(nn.Module):
        def __init__(self, norm: Any, head: Any) -> None:
            super().__init__()
            self.norm, self.head = norm, head

        def forward(self, hidden: Any) -> Any:
            return self.head(self.norm(hidden))

    import torch

    decoder = model.model
    return [
        Embedding(decoder),
        *(Layer(layer, decoder.rotary_emb) for layer in decoder.layers),
        Head(decoder.norm, model.lm_head),
    ]
