"""Pipeline parallelism: each rank has some of the model's layers; a batch passes through them in micro-batches, and a
schedule says in which order a rank runs their forward and backward passes."""

import itertools
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from breakeven.schema.catalog import WORKLOADS, piece_count
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Json, Spec
from breakeven.schema.strategy import Check, Option, StrategyMeta
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.overflow import agree_on_overflow
from breakeven.strategies.stages import held_by, split
from breakeven.strategies.state import Parameter
from breakeven.strategies.trainee import Criterion, Inputs, Trainee
from breakeven.workloads.anatomy import bare


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One of ``torch.distributed.pipelining``."""

    torch_name: str
    stages_per_rank: int | None = 1
    """None: as ``stages_per_rank`` of the options says."""
    folded: bool = False
    """The first rank has the last stage too."""
    in_rounds: bool = False
    """Micro-batches are run in rounds of as many as there are ranks."""
    all_stages_busy: bool = False
    """At least as many micro-batches as stages."""
    splits_backward: bool = False
    """Gradients of inputs are computed apart from those of weights."""


SCHEDULES = {
    "gpipe": Schedule(torch_name="ScheduleGPipe"),
    "1f1b": Schedule(torch_name="Schedule1F1B", all_stages_busy=True),
    "looped_bfs": Schedule(torch_name="ScheduleLoopedBFS", stages_per_rank=None),
    "interleaved_1f1b": Schedule(torch_name="ScheduleInterleaved1F1B", stages_per_rank=None, in_rounds=True),
    "interleaved_zero_bubble": Schedule(
        torch_name="ScheduleInterleavedZeroBubble", stages_per_rank=None, in_rounds=True, splits_backward=True
    ),
    "zbv_zero_bubble": Schedule(
        torch_name="ScheduleZBVZeroBubble", stages_per_rank=2, folded=True, splits_backward=True
    ),
    "dualpipev": Schedule(
        torch_name="ScheduleDualPipeV", stages_per_rank=2, folded=True, all_stages_busy=True, splits_backward=True
    ),
}


def refuses(spec: Spec) -> str:
    options = {name: spec.strategy_options.get(name, option.default) for name, option in META.options.items()}
    name, micro_batches = options["schedule"], options["micro_batches"]
    schedule, ranks = SCHEDULES[name], spec.resolved_degrees["pp"]
    stages = ranks * per_rank(options)
    if spec.evaluate_every:
        return "strategy pp evaluates nothing, since no rank has the whole model: evaluate_every 0."
    family = WORKLOADS.get(spec.workload.model)
    pieces = piece_count({**(family.defaults if family else {}), **spec.workload.config})
    if pieces and stages > pieces:
        return too_many(ranks, per_rank(options), pieces)
    if schedule.all_stages_busy and micro_batches < stages:
        return f"schedule {name} needs a micro-batch for each of its {stages} stages: micro_batches {stages} or more."
    rounds = max(1, micro_batches // ranks)
    if schedule.in_rounds and micro_batches % rounds:
        return f"schedule {name} runs micro-batches in rounds of {ranks}: micro_batches {rounds * ranks}, for example."
    if schedule.splits_backward:
        # Seen with torch 2.13: shards lost gradients without an error (losses off by 2e-2), and the process crashed
        # where the gradient of a convolution's weights was asked for alone.
        for wrong, what in (
            (spec.compile, "compile does not allow"),
            ("shard" in spec.resolved_degrees, "loses gradients of sharded parameters"),
            (spec.memory_format == "channels_last", "torch does not survive with memory_format channels_last"),
        ):
            if wrong:
                return f"schedule {name} splits the backward pass, which {what}. Use another, such as 1f1b."
    return ""


META = StrategyMeta(
    name="pp",
    title="pipeline parallelism",
    kind="pipeline",
    axes=("pp",),
    needs=("pieces",),
    combines=("data", "tensor"),
    options={
        "schedule": Option(
            default="1f1b", choices=tuple(SCHEDULES), means="The order of forward and backward passes on each rank."
        ),
        "micro_batches": Option(default=4, minimum=1, means="Parts that a rank's batch passes the stages in."),
        "stages_per_rank": Option(
            default=2, minimum=1, means="Stages of each rank, in the looped and interleaved schedules."
        ),
        "balance": Option(
            default="pieces",
            choices=("pieces", "parameters"),
            means="What stages have equally many of: the model's layers, or its parameters.",
        ),
    },
    refuses=refuses,
    checks=(
        Check(devices=2, workloads=("llama", "llama-lora", "mobilenet_v2", "resnet", "vit")),
        Check(devices=4, workloads=("llama", "mobilenet_v2")),
        *(
            Check(devices=2, workloads=("llama", "resnet"), options={"schedule": name})
            for name in SCHEDULES
            if name != "1f1b"
        ),
        Check(devices=2, workloads=("llama-lora",), options={"schedule": "interleaved_1f1b", "stages_per_rank": 3}),
        Check(devices=2, workloads=("llama-lora",), options={"schedule": "zbv_zero_bubble"}),
        Check(devices=2, workloads=("llama", "vit"), options={"balance": "parameters", "micro_batches": 8}),
        Check(devices=2, workloads=("llama",), settings={"gradient_accumulation": 2}),
        Check(
            devices=2,
            workloads=("llama",),
            options={"schedule": "interleaved_zero_bubble"},
            settings={"activation_checkpointing": True},
        ),
        Check(devices=2, workloads=("resnet",), settings={"memory_format": "channels_last"}),
        Check(
            devices=2,
            workloads=("llama",),
            settings={"precision": "fp16"},
            tolerance=1e-4,
            note="rounded anew in each part",
        ),
        Check(devices=4, product="ddp", workloads=("llama", "llama-lora", "resnet"), degrees={"pp": 2}),
        Check(
            devices=4,
            product="ddp",
            workloads=("llama",),
            degrees={"pp": 2},
            options={"schedule": "zbv_zero_bubble"},
        ),
        Check(devices=4, product="zero1", workloads=("llama",), degrees={"pp": 2}),
        Check(devices=4, product="zero2", workloads=("llama",), degrees={"pp": 2}),
        Check(devices=4, product="fsdp", workloads=("llama", "llama-lora", "resnet"), degrees={"pp": 2}),
        Check(
            devices=4,
            product="fsdp",
            workloads=("llama",),
            degrees={"pp": 2},
            options={"schedule": "interleaved_1f1b"},
        ),
        Check(devices=4, product="tp", workloads=("llama", "vit"), degrees={"pp": 2}),
        Check(devices=8, product="hsdp", workloads=("llama",), degrees={"pp": 2, "shard": 2}),
        Check(devices=8, product="ddp*tp", workloads=("llama",), degrees={"pp": 2, "tp": 2}),
        Check(devices=8, product="fsdp*tp", workloads=("llama",), degrees={"pp": 2, "tp": 2}),
    ),
    source="https://arxiv.org/abs/2104.04473",
)


def too_many(ranks: int, stages: int, pieces: int) -> str:
    each = "1 stage" if stages == 1 else f"{stages} stages"
    fewer = "" if stages == 1 else "a schedule of one stage per rank (gpipe, 1f1b), "
    return (
        f"pipeline parallelism: {ranks} ranks of {each} each need {ranks * stages} pieces, and the model "
        f"has {pieces}. Use fewer ranks, {fewer}or more layers."
    )


def per_rank(options: Json) -> int:
    """Stages of each rank."""
    return SCHEDULES[options["schedule"]].stages_per_rank or int(options["stages_per_rank"])


def stages_of_rank(trainee: Trainee, mesh: Mesh, options: Json) -> dict[int, dict[int, Any]]:
    """This rank's stages in order, each its pieces by their place in the model.

    Raises UserError for a model that cannot be cut so.
    """
    if trainee.anatomy.pieces is None or trainee.piece_sizes is None:
        raise UserError("pipeline parallelism: this model does not say how it is called piece by piece.")
    pieces = trainee.anatomy.pieces(bare(trainee.module))
    ranks, schedule = mesh.degree("pp"), SCHEDULES[options["schedule"]]
    costs = trainee.piece_sizes if options["balance"] == "parameters" else [1] * len(pieces)
    count = ranks * per_rank(options)
    if count > len(pieces):
        raise UserError(too_many(ranks, per_rank(options), len(pieces)))
    cuts = split(costs, count)
    first_stage: dict[int, int] = {}
    for number, places in enumerate(cuts):
        for parameter in itertools.chain.from_iterable(pieces[place].parameters() for place in places):
            if first_stage.setdefault(id(parameter), number) != number:
                raise UserError(
                    "pipeline parallelism: two stages share a parameter, and each would train its own. "
                    "Untie it (tie_word_embeddings: false, for example)."
                )
    held = held_by(mesh.coordinate("pp"), ranks, per_rank(options), folded=schedule.folded)
    return {number: {place: pieces[place] for place in cuts[number]} for number in held}


def apply(trainee: Trainee, mesh: Mesh, options: Json) -> Trainee:
    import torch
    import torch.distributed.pipelining as pipelining
    from torch import nn

    class Stage(nn.Sequential):
        """What it sends on, and its gradient sends back, lies contiguous in memory, as it must to be sent."""

        def forward(self, hidden: Any) -> Any:
            if hidden.requires_grad:
                hidden = hidden.view_as(hidden)  # what is received keeps its hooks from update to update
                hidden.register_hook(lambda gradient: gradient.contiguous())
            with trainee.autocast():
                return super().forward(hidden).contiguous()

    root = bare(trainee.module)
    held = stages_of_rank(trainee, mesh, options)
    # Names that are no other module's ending: blocks are found by theirs.
    module = nn.ModuleDict(
        {
            f"stage{number}": Stage(OrderedDict((f"piece{place}", piece) for place, piece in pieces.items()))
            for number, pieces in held.items()
        }
    )
    blocks = {id(root.get_submodule(name)) for name in trainee.anatomy.blocks}
    count, group = mesh.degree("pp") * per_rank(options), mesh.group("pp")
    stages = [
        pipelining.PipelineStage(module[f"stage{number}"], number, count, mesh.device, group=group) for number in held
    ]
    pipeline = Pipeline(
        input_name=root.main_input_name if 0 in held else None,
        has_loss=count - 1 in held,
        micro_batches=options["micro_batches"],
    )
    schedule = SCHEDULES[options["schedule"]]
    pipeline.schedule = getattr(pipelining, schedule.torch_name)(
        stages[0] if schedule.stages_per_rank == 1 else stages,
        n_microbatches=options["micro_batches"],
        loss_fn=pipeline.loss,
        scale_grads=False,  # a micro-batch's loss is its share of the whole batch's: they add up
    )

    def after_backward() -> None:
        trainee.after_backward()
        if trainee.scaled:
            trainee.scale(torch.zeros((), device=mesh.device))  # a scaler that has seen no loss would refuse to step
            agree_on_overflow(module, group, mesh.device)

    return replace(
        trainee,
        module=module,
        stages=tuple(module.values()),
        anatomy=replace(
            trainee.anatomy, blocks=tuple(name for name, child in module.named_modules() if id(child) in blocks)
        ),
        run=pipeline.run,
        part=lambda inputs: pipeline.needed(trainee.part(inputs)),
        after_backward=after_backward,
        optimizer=lambda parameters, kind, settings: trainee.optimizer(some(parameters), kind, settings),
        evaluates=False,
    )


@dataclass
class Pipeline:
    """One rank's side of it."""

    input_name: str | None
    """Of the model's input tensor, on the rank that has the first stage."""
    has_loss: bool
    micro_batches: int
    schedule: Any = None
    _trainee: Any = None
    _criterion: Any = None
    _losses: list[Any] = field(default_factory=list)

    def needed(self, inputs: Inputs) -> Inputs:
        names = ([self.input_name] if self.input_name else []) + (["labels"] if self.has_loss else [])
        return {name: inputs[name] for name in names}

    def run(self, trainee: Trainee, inputs: Inputs, criterion: Criterion) -> Any:
        self._trainee, self._criterion = trainee, criterion
        given = [inputs[self.input_name]] if self.input_name else []
        with trainee.around():
            self.schedule.step(*given, target=inputs.get("labels"), return_outputs=False)
        # The first step computes one loss more, to learn the shapes that are sent.
        losses, self._losses = self._losses[-self.micro_batches :], []
        return sum(losses[1:], losses[0]) if self.has_loss else None

    def loss(self, logits: Any, labels: Any) -> Any:
        with self._trainee.autocast():
            loss = self._criterion(logits, labels)
        self._losses.append(loss.detach())
        return self._trainee.scale(loss)


def some(parameters: Iterable[Any]) -> list[Any]:
    """A stage may have nothing to train, which an optimiser would not take."""
    from torch import nn, zeros

    return list(parameters) or [nn.Parameter(zeros(()))]


def local(parameters: Sequence[Parameter], trainee: Trainee, mesh: Mesh, options: Json) -> list[Parameter]:
    pieces = [piece for stage in stages_of_rank(trainee, mesh, options).values() for piece in stage.values()]
    mine = {id(parameter) for piece in pieces for parameter in piece.parameters()}
    names = {name for name, parameter in trainee.module.named_parameters() if id(parameter) in mine}
    return [parameter for parameter in parameters if parameter.name in names]
