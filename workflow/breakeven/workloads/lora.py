"""LoRA: the weights stay frozen, low-rank adapters beside the linear layers are trained."""

from typing import Any

from breakeven.schema.spec import Json

RANK = 8


def apply(model: Any, options: Json) -> Any:
    """``rank`` (8), ``alpha`` (twice the rank), ``target_modules`` (every linear layer but the output head)."""
    from peft import LoraConfig, get_peft_model

    rank = int(options.get("rank", RANK))
    config = LoraConfig(
        r=rank,
        lora_alpha=options.get("alpha", 2 * rank),
        target_modules=options.get("target_modules", "all-linear"),
        lora_dropout=0.0,  # drawn per rank, dropout would make the loss depend on the number of devices
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, config)
