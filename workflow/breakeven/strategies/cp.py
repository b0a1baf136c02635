"""Context parallelism: the ranks share every sample, each has a part of its tokens; attention alone sees all of them,
through an exchange. Only for models that predict the next token."""

from dataclasses import replace

from breakeven.schema.catalog import WORKLOADS, attention_heads
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Json, Spec
from breakeven.schema.strategy import Check, Option, StrategyMeta
from breakeven.strategies import ddp
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.trainee import Inputs, Trainee
from breakeven.workloads.anatomy import bare


def refuses(spec: Spec) -> str:
    exchange = spec.strategy_options.get("exchange", "keys")
    degrees, length = spec.resolved_degrees, spec.workload.sequence_length
    slices = slices_of(exchange, degrees["cp"])
    if length and length % slices:
        return uneven(length, slices)
    family = WORKLOADS.get(spec.workload.model)
    heads = attention_heads({**(family.defaults if family else {}), **spec.workload.config})
    ranks = degrees["cp"] * degrees.get("tp", 1)
    return undealt(heads, ranks) if exchange == "heads" and heads % ranks else ""


META = StrategyMeta(
    name="cp",
    title="context parallelism",
    kind="context",
    axes=("cp",),
    needs=("attention",),
    combines=("data", "tensor"),
    options={
        "exchange": Option(
            default="keys",
            choices=("keys", "heads"),
            means="What attention exchanges: all ranks gather the keys and values (Llama 3), or each gets all tokens "
            "of some heads (Ulysses).",
        ),
    },
    refuses=refuses,
    checks=(
        Check(devices=2, workloads=("llama", "llama-lora")),
        Check(devices=2, workloads=("llama", "llama-lora"), options={"exchange": "heads"}),
        Check(devices=4, workloads=("llama",)),
        Check(devices=2, workloads=("llama",), settings={"activation_checkpointing": True}),
        Check(
            devices=2,
            workloads=("llama",),
            settings={"precision": "bf16"},
            tolerance=5e-4,
            note="bf16 rounds the gradients of exchanged keys otherwise than those of keys at hand",
        ),
        Check(devices=4, product="ddp", workloads=("llama",), degrees={"cp": 2}),
        Check(devices=4, product="ddp", workloads=("llama",), degrees={"cp": 2}, settings={"gradient_accumulation": 2}),
        Check(devices=4, product="fsdp", workloads=("llama",), degrees={"cp": 2}),
        Check(
            devices=4, product="fsdp", workloads=("llama",), degrees={"cp": 2}, settings={"gradient_accumulation": 2}
        ),
        Check(devices=4, product="tp", workloads=("llama",), degrees={"tp": 2}),
    ),
    source="https://arxiv.org/abs/2407.21783",
)


def apply(trainee: Trainee, mesh: Mesh, options: Json) -> Trainee:
    from transformers import AttentionInterface

    from breakeven.strategies.exchange import ExchangedHeads, GatheredKeys

    ranks, sharing, heads = mesh.degree("cp"), mesh.degree("cp", "tp"), trainee.anatomy.heads
    exchange = options["exchange"]
    if trainee.anatomy.attention is None:
        raise UserError("context parallelism: this model has no attention function that could be exchanged.")
    if exchange == "heads" and heads % sharing:
        raise UserError(undealt(heads, sharing))
    attend = (GatheredKeys if exchange == "keys" else ExchangedHeads)(mesh.group("cp"))
    # Under a name of its own: transformers makes no mask for a function that it does not know.
    AttentionInterface.register(f"breakeven_{exchange}", attend)
    trainee.anatomy.attention(bare(trainee.module), f"breakeven_{exchange}")
    place, before = mesh.coordinate("cp"), trainee.part
    # Called on whole samples the model would take them for its part.
    trainee = replace(trainee, part=lambda inputs: before(part(inputs, exchange, ranks, place)), evaluates=False)
    if mesh.degrees.keys() & {"replicate", "shard"}:
        return trainee  # whatever splits the data averages gradients over these ranks too
    alone = {name: option.default for name, option in ddp.META.options.items()}
    return ddp.apply(trainee, mesh, alone)


def part(inputs: Inputs, exchange: str, ranks: int, place: int) -> Inputs:
    """This rank's tokens of every tensor (samples, tokens)."""
    import torch

    slices = slices_of(exchange, ranks)
    length = next(iter(inputs.values())).shape[1]
    if length % slices:
        raise UserError(uneven(length, slices))
    if exchange == "heads":
        return {name: tensor.chunk(ranks, dim=1)[place] for name, tensor in inputs.items()}

    def ends(tensor: torch.Tensor) -> torch.Tensor:
        parts = tensor.chunk(slices, dim=1)
        return torch.cat([parts[place], parts[slices - 1 - place]], dim=1)

    return {name: ends(tensor) for name, tensor in inputs.items()}


def slices_of(exchange: str, ranks: int) -> int:
    """Equal slices of a sample's tokens that are dealt out: where keys are gathered a rank has two, from both ends."""
    return 2 * ranks if exchange == "keys" else ranks


def uneven(length: int, slices: int) -> str:
    return (
        f"context parallelism: {length} tokens cannot be cut into {slices} equal slices. "
        f"Use a sequence_length that {slices} divides."
    )


def undealt(heads: int, ranks: int) -> str:
    return (
        f"context parallelism: exchange 'heads' cannot deal {heads} attention heads (of queries, keys and values "
        f"alike) out to {ranks} ranks (cp x tp). Use degrees that divide {heads}, or exchange 'keys'."
    )
