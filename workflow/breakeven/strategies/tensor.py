"""How layers are cut over the ranks of a tensor-parallel group, with and without sequence parallelism, and what a rank
then holds.

Each rank keeps its parts as plain tensors and sees them as parts of a whole only where a layer computes. So whatever
comes after (buckets, shards, optimisers over many tensors at once) finds ordinary parameters whose gradients are
complete, and needs to know nothing of tensor parallelism.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from breakeven.schema.errors import UserError
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.overflow import agree_on_overflow
from breakeven.strategies.state import Parameter, chunk
from breakeven.strategies.trainee import Inputs, Trainee
from breakeven.workloads.anatomy import Cut, TensorPlan, bare

#: A linear layer with LoRA adapters: into which of its parts the layer's own cut passes. The output of a cut layer is
#: summed or shared out with its adapter's, so what lies between its two matrices is whole on every rank.
_ADAPTED: dict[Cut, tuple[str, ...]] = {"column": ("base_layer", "lora_B"), "row": ("base_layer", "lora_A")}


def split(trainee: Trainee, mesh: Mesh, *, sequence: bool, loss_parallel: bool) -> Trainee:
    """``sequence``: between the cut layers each rank has a part of the tokens, not all of them.
    ``loss_parallel``: the loss is computed from cut logits, which no rank gathers."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, SequenceParallel, parallelize_module
    from torch.distributed.tensor.parallel import loss_parallel as of_cut_logits

    from breakeven.strategies.parts import EmbeddingPart, hold_plainly

    plan, ranks = checked(trainee, mesh, sequence=sequence), mesh.sub("tp")
    root = bare(trainee.module)
    between = Shard(1) if sequence else Replicate()  # how tokens lie between the cut layers
    styles: dict[str, Any] = {}
    for name, cut in plan.linears.items():
        styles |= _linear(root, name, cut, between)
    for name in trainee.anatomy.sequence_plan.norms if sequence and trainee.anatomy.sequence_plan else ():
        styles[name] = SequenceParallel(use_local_output=True)
    if plan.head:
        styles[plan.head] = ColwiseParallel(
            input_layouts=between,
            output_layouts=Shard(-1) if loss_parallel else Replicate(),
            use_local_output=not loss_parallel,
        )
    tied = plan.head and plan.embedding and _weight(root, plan.head) is _weight(root, plan.embedding)
    frozen = [name for name, parameter in root.named_parameters() if not parameter.requires_grad]
    parallelize_module(root, ranks, styles, src_data_rank=None)  # the seed gave every rank the same weights
    for name in frozen:  # SequenceParallel forgets it, and would train a frozen norm
        root.get_parameter(name).requires_grad_(False)
    for name in plan.inputs:
        _share_input(root.get_submodule(name), ranks, between)
    hold_plainly(root)
    if plan.embedding:
        embedding = EmbeddingPart(root.get_submodule(plan.embedding), ranks, between)
        root.set_submodule(plan.embedding, embedding)
        if tied and plan.head:
            root.get_submodule(plan.head).parametrizations.weight.original = embedding.weight
    if sequence:
        trainee = replace(trainee, part=lambda inputs: _divisible(inputs, mesh.degree("tp")))
    if trainee.scaled:
        trainee = replace(trainee, after_backward=_in_agreement(trainee, mesh))
    return replace(trainee, around=of_cut_logits) if plan.head and loss_parallel else trainee


def _in_agreement(trainee: Trainee, mesh: Mesh) -> Callable[[], None]:
    module, before = trainee.module, trainee.after_backward

    def after_backward() -> None:
        before()
        agree_on_overflow(module, mesh.group("tp"), mesh.device)

    return after_backward


def _divisible(inputs: Inputs, degree: int) -> Inputs:
    """All tokens, which the embedding deals out. Unequal parts would hang the ranks."""
    length = next(iter(inputs.values())).shape[1]
    if length % degree:
        raise UserError(uneven(length, degree))
    return inputs


def uneven(length: int, degree: int) -> str:
    return (
        f"sequence parallelism: {length} tokens cannot be dealt out to {degree} ranks equally. "
        f"Use a sequence_length that {degree} divides."
    )


def local(parameters: Sequence[Parameter], trainee: Trainee, mesh: Mesh, *, sequence: bool) -> list[Parameter]:
    """What of them this rank holds, by the plan."""
    plan = checked(trainee, mesh, sequence=sequence)
    parts, part = mesh.degree("tp"), mesh.coordinate("tp")
    root = bare(trainee.module)
    prefix = next(f"{name}." if name else "" for name, module in trainee.module.named_modules() if module is root)

    def of_rank(parameter: Parameter) -> Parameter:
        dimension = _cut_dimension(plan, parameter.name.removeprefix(prefix))
        if dimension is None:
            return parameter
        shape = list(parameter.shape)
        shape[dimension] = chunk(shape[dimension], parts, part)
        return replace(parameter, shape=tuple(shape))

    return [of_rank(parameter) for parameter in parameters]


def _cut_dimension(plan: TensorPlan, name: str) -> int | None:
    """Which dimension of a parameter is cut; None: each rank holds it whole."""
    cuts: dict[str, Cut] = {**plan.linears}
    cuts |= {layer: "column" for layer in (plan.embedding, plan.head) if layer}
    layer = next((layer for layer in cuts if name.startswith(f"{layer}.")), None)
    if layer is None:
        return None
    *inner, kind = name.removeprefix(f"{layer}.").split(".")
    if inner and inner[0] not in _ADAPTED[cuts[layer]]:
        return None
    if cuts[layer] == "column":
        return 0
    return 1 if kind == "weight" else None


def checked(trainee: Trainee, mesh: Mesh, *, sequence: bool) -> TensorPlan:
    """The model's plan. Raises UserError where there is none, or the degree does not divide what it is to cut."""
    plan, degree, heads = trainee.anatomy.tensor_plan, mesh.degree("tp"), trainee.anatomy.heads
    if plan is None:
        raise UserError("tensor parallelism: this model does not say how its layers are cut (tensor_plan).")
    if sequence and trainee.anatomy.sequence_plan is None:
        raise UserError(
            "sequence parallelism: this model does not say what of it works on a part of the tokens (sequence_plan). "
            "Use tp."
        )
    if heads % degree:
        raise UserError(
            f"tensor parallelism: {degree} ranks cannot share {heads} attention heads (of queries, keys and values "
            f"alike) equally. Use a tp that divides {heads}."
        )
    root = bare(trainee.module)
    for name, cut in plan.linears.items():
        rows, columns = _weight(root, name).shape
        size, side = (rows, "outputs") if cut == "column" else (columns, "inputs")
        if size % degree:
            raise UserError(
                f"tensor parallelism: {degree} ranks cannot share the {size} {side} of {name} equally. "
                f"Use a tp that divides {size}."
            )
    for cut_whole in filter(None, (plan.embedding, plan.head)):
        if hasattr(root.get_submodule(cut_whole), "base_layer"):
            raise UserError(f"tensor parallelism: {cut_whole} has an adapter; only linear layers of blocks may.")
    return plan


def _weight(root: Any, name: str) -> Any:
    layer = root.get_submodule(name)
    return getattr(layer, "base_layer", layer).weight


def _linear(root: Any, name: str, cut: Cut, between: Any) -> dict[str, Any]:
    """Styles of a linear layer, or of the parts of one with adapters."""
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel

    layer = root.get_submodule(name)
    style: Any = ColwiseParallel() if cut == "column" else RowwiseParallel(output_layouts=between)
    if not hasattr(layer, "base_layer"):
        return {name: style}
    styles = {f"{name}.base_layer": style}
    for adapter in layer.lora_A:
        if cut == "column":
            styles[f"{name}.lora_B.{adapter}"] = ColwiseParallel()
            layer.lora_A[adapter].register_forward_pre_hook(_plain_input)
        else:
            styles[f"{name}.lora_A.{adapter}"] = RowwiseParallel(output_layouts=between)
            if between != Replicate():  # each rank multiplies its own tokens: the gradient is the sum over ranks
                styles[f"{name}.lora_B.{adapter}"] = SequenceParallel(use_local_output=True)
    return styles


def _plain_input(module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """A whole layer takes the shared input as an ordinary tensor."""
    first = inputs[0]
    return (first.to_local() if hasattr(first, "to_local") else first, *inputs[1:])


def _share_input(module: Any, ranks: Any, between: Any) -> None:
    """All layers of ``module`` are handed one input, gathered once; its gradient too is summed once, not per layer."""
    from torch.distributed.tensor import DTensor, Replicate

    def gather(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        def whole(tokens: Any) -> Any:
            return DTensor.from_local(tokens, ranks, [between], run_check=False).redistribute(placements=[Replicate()])

        if args:
            return (whole(args[0]), *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": whole(kwargs["hidden_states"])}

    module.register_forward_pre_hook(gather, with_kwargs=True)
