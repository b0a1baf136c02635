"""How layers and tokens are cut over ranks, on a process group that sends nothing: one process plays any rank."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import RowwiseParallel, SequenceParallel, parallelize_module
from torch.nn.attention.bias import causal_lower_right
from torch.utils._python_dispatch import TorchDispatchMode

from breakeven.schema.errors import UserError
from breakeven.schema.spec import Spec
from breakeven.schema.strategies import find_strategy
from breakeven.schema.support import refused
from breakeven.strategies.compose import compose, expected_state
from breakeven.strategies.cp import part
from breakeven.strategies.exchange import causal_mask
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.state import State, measured
from breakeven.strategies.trainee import Trainee
from breakeven.workloads.objectives import objective
from breakeven.workloads.registry import anatomy, build_model
from tests.ranks import data_of, spec

CPU = torch.device("cpu")


def of_model(run: Spec, **config: Any) -> Spec:
    """The same with another model."""
    return replace(run, workload=replace(run.workload, config={**run.workload.config, **config}))


@contextmanager
def played(rank: int, ranks: int) -> Iterator[None]:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
    try:
        yield
    finally:
        dist.destroy_process_group()


def trained(run: Spec, rank: int, around: Callable[[], Any] = nullcontext) -> tuple[State, State]:
    """Bytes by formula, and as held after one update. ``around`` is entered for its passes."""
    data = data_of(run)
    with played(rank, run.ranks):
        mesh = Mesh.make(run.resolved_degrees, run.ranks, CPU)
        model = build_model(run, data, None)
        trainee = Trainee(module=model, anatomy=anatomy(model))
        product = find_strategy(run.strategy)
        expected = expected_state(trainee, product, mesh, run.strategy_options, 1)
        trainee = compose(trainee, product, mesh, run.strategy_options, checkpointing=False, compiled=False)
        optimizer = torch.optim.SGD([p for p in trainee.module.parameters() if p.requires_grad], 0.1, momentum=0.9)
        task, samples = objective(data, run, mesh.gradient_ranks), np.arange(4)
        inputs, criterion = task.host(data.take(samples)), task.criterion(data.work(samples))
        with around():
            trainee.run(trainee, trainee.part(task.device(inputs)), criterion)
        optimizer.step()
        return expected, measured(trainee.module, optimizer)


MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama-lora": ("llama-lora", {}),
    "vit": ("vit", {}),
    "tied": ("llama", {"tie_word_embeddings": True}),
    "shared keys": ("llama", {"num_key_value_heads": 2}),
    "odd vocabulary": ("llama", {"vocab_size": 513}),
    "biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
}


def small(strategy: str, ranks: int, model: str = "llama") -> Spec:
    workload, config = MODELS[model]
    return of_model(spec(strategy, ranks, workload), num_hidden_layers=1, **config)


@pytest.mark.parametrize(
    ("strategy", "model"), [(s, model) for model in MODELS for s in ("tp", "tp_sp") if (s, model) != ("tp_sp", "vit")]
)
def test_a_rank_holds_the_bytes_of_its_parts_and_no_more(strategy: str, model: str) -> None:
    # The last rank alone: torch remembers shapes, and would give them to the next rank that this process plays.
    expected, held = trained(small(strategy, 2, model), rank=1)
    assert held == expected


def test_one_of_four_ranks_holds_a_quarter_of_what_is_cut() -> None:
    whole, _ = trained(small("single", 1), 0)
    quarter, held = trained(small("tp", 4), 3)
    norms = 4 * 3 * 64  # bytes of the norms, which every rank holds: two in the block, one after it
    assert held.parameters == quarter.parameters == (whole.parameters - norms) / 4 + norms


def test_tensor_parallelism_sums_four_times_per_block_as_megatron_does() -> None:
    """4 blocks x (2 forward, 2 backward), the embedding and the head's input; torch's own plan sums per layer: 30."""
    seen = CommDebugMode()
    trained(spec("tp", 2, "llama", strategy_options={"loss_parallel": False}), 0, lambda: seen)
    counts = {str(operation).rpartition(".")[2]: count for operation, count in seen.get_comm_counts().items()}
    assert counts == {"all_reduce": 18, "all_gather_into_tensor": 1}


class Reads(TorchDispatchMode):
    """Notes what hands a value of the device to the host, which then waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, torch.distributed.tensor.DTensor) for kind in types):
            return NotImplemented  # its parts come by
        if func._schema.name in {"aten::_local_scalar_dense", "aten::nonzero", "aten::equal", "aten::is_nonzero"}:
            self.found.append(func._schema.name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(("strategy", "model"), [("tp", "llama"), ("tp", "llama-lora"), ("tp_sp", "llama")])
def test_passes_through_cut_layers_read_no_value(strategy: str, model: str) -> None:
    reads = Reads()
    trained(small(strategy, 2, model), 0, lambda: reads)
    assert reads.found == []


def test_causal_mask_of_the_last_tokens_is_the_one_fused_kernels_know() -> None:
    assert causal_mask(3, 3, CPU) is None
    assert causal_mask(2, 5, CPU).tolist() == [[True, True, True, True, False], [True] * 5]
    assert torch.equal(causal_mask(2, 5, CPU), causal_lower_right(2, 5)._materialize(CPU))


def test_ranks_that_gather_keys_have_equally_much_to_attend_to() -> None:
    places = {"position_ids": torch.arange(48)[None]}
    mine = [part(places, "keys", 4, rank)["position_ids"][0] for rank in range(4)]
    assert sorted(torch.cat(mine).tolist()) == list(range(48))
    assert {int((1 + place).sum()) for place in mine} == {48 * 49 // 2 // 4}


@pytest.mark.parametrize(
    ("strategy", "devices", "fields", "reason"),
    [
        ("cp", 2, {"length": 50}, "50 tokens cannot be cut into 4 equal slices. Use a sequence_length that 4 divides"),
        ("cp", 2, {"length": 50, "strategy_options": {"exchange": "heads"}}, ""),
        ("cp", 8, {"strategy_options": {"exchange": "heads"}}, "cannot deal 4 attention heads"),
        ("cp", 8, {}, ""),
        ("tp_sp", 2, {"length": 49}, "49 tokens cannot be dealt out to 2 ranks equally"),
        ("cp*tp_sp", 4, {"length": 50, "degrees": {"tp": 2}, "strategy_options": {"exchange": "heads"}}, "25 tokens"),
    ],
)
def test_what_cannot_be_shared_equally_is_refused_before_anything_runs(
    strategy: str, devices: int, fields: dict[str, Any], reason: str
) -> None:
    length = fields.pop("length", 48)
    run = spec(strategy, devices, "llama", **fields)
    found = refused(replace(run, workload=replace(run.workload, sequence_length=length)))
    assert (reason in found) if reason else found == ""


def test_heads_that_a_rank_finds_it_cannot_share_are_named() -> None:
    with pytest.raises(UserError, match="8 ranks cannot share 4 attention heads"):
        trained(small("tp", 8), 0)


def test_a_model_whose_tokens_no_ranks_can_share_equally_offers_no_sequence_parallelism() -> None:
    with pytest.raises(UserError, match="does not say what of it works on a part of the tokens"):
        trained(small("tp_sp", 2, "vit"), 0)


class TestWhyTorchsOwnPlanIsNotUsed:
    """Where one of these begins to be otherwise, its stand-in in ``strategies`` may go."""

    def test_its_row_cut_embedding_gives_every_rank_the_gradient_of_every_row(self) -> None:
        with played(1, 2):
            ranks = init_device_mesh("cpu", (2,))
            embedding = parallelize_module(nn.Embedding(8, 3), ranks, RowwiseParallel(input_layouts=Replicate()))
            embedding(torch.tensor([1, 5])).sum().backward()
            assert embedding.weight.to_local().shape == (4, 3)
            assert embedding.weight.grad.to_local().shape == (8, 3)

    def test_its_sequence_parallel_norm_trains_a_frozen_weight(self) -> None:
        with played(1, 2):
            norm = parallelize_module(
                nn.LayerNorm(3).requires_grad_(False), init_device_mesh("cpu", (2,)), SequenceParallel()
            )
            assert norm.weight.requires_grad
