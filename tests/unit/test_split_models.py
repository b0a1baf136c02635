"""How layers and tokens are cut over ranks, on a process group that sends nothing: one process plays any rank."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from breakeven.datasets.batches import Images, Texts, Work
from breakeven.schema.checks import WORKLOADS
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Spec, Workload
from breakeven.schema.strategies import find_strategy
from breakeven.schema.support import refused
from breakeven.strategies.compose import compose, expected_state
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.state import measured
from breakeven.strategies.trainee import Trainee
from breakeven.workloads.objectives import objective
from breakeven.workloads.registry import anatomy, build_model

LENGTH = 48


def spec_of(strategy: str, workload: Workload, devices: int, **fields: Any) -> Spec:
    settings = {"device_kind": "cpu", "device_model": "c", "devices_per_node": 8, "global_batch": 4, **fields}
    return Spec(workload=workload, strategy=strategy, devices=devices, **settings)


def data_of(workload: Workload) -> Texts | Images:
    if workload.sequence_length is None:
        return Images(np.zeros((4, 32, 32), np.uint8), np.array([0, 1, 2, 9]), levels=16, classes=10)
    ids = np.arange(4 * LENGTH, dtype=np.int32) % 500 + 3
    return Texts(ids, np.arange(5) * LENGTH, np.zeros(4, np.int32), 0, workload.config["vocab_size"], LENGTH)


@contextmanager
def played(rank: int, ranks: int) -> Iterator[None]:
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
    try:
        yield
    finally:
        dist.destroy_process_group()


def trained(spec: Spec, rank: int, update: Any = None) -> tuple[Any, Any]:
    """Bytes by formula and as held after one update, which ``update`` may do instead."""
    data = data_of(spec.workload)
    with played(rank, spec.ranks):
        mesh = Mesh.make(spec.resolved_degrees, spec.ranks, torch.device("cpu"))
        model = build_model(spec, data, None)
        trainee = Trainee(module=model, anatomy=anatomy(model))
        product = find_strategy(spec.strategy)
        expected = expected_state(trainee, product, mesh, spec.strategy_options, 1)
        trainee = compose(trainee, product, mesh, spec.strategy_options, checkpointing=False, compiled=False)
        optimizer = torch.optim.SGD([p for p in trainee.module.parameters() if p.requires_grad], 0.1, momentum=0.9)
        of = objective(data, spec, mesh.gradient_ranks)
        inputs = trainee.part(of.device(of.host(data.take(np.arange(4)))))
        (update or (lambda run: run()))(lambda: trainee.run(trainee, inputs, of.criterion(Work(4, tokens_loss=100))))
        optimizer.step()
        return expected, measured(trainee.module, optimizer)


def with_config(workload: Workload, **config: Any) -> Workload:
    return replace(workload, config={**workload.config, **config})


CASES = {
    **{name: with_config(WORKLOADS[name], num_hidden_layers=1) for name in ("llama", "llama-lora", "vit")},
    "tied": with_config(WORKLOADS["llama"], num_hidden_layers=1, tie_word_embeddings=True),
    "shared keys": with_config(WORKLOADS["llama"], num_hidden_layers=1, num_key_value_heads=2),
    "odd vocabulary": with_config(WORKLOADS["llama"], num_hidden_layers=1, vocab_size=511),
    "biases": with_config(WORKLOADS["llama"], num_hidden_layers=1, attention_bias=True, mlp_bias=True),
}


@pytest.mark.parametrize(
    ("strategy", "name"), [(s, name) for name in CASES for s in ("tp", "tp_sp") if (s, name) != ("tp_sp", "vit")]
)
def test_a_rank_holds_the_bytes_of_its_parts_and_no_more(strategy: str, name: str) -> None:
    # The last rank alone: torch remembers shapes, and would give them to the next rank that this process plays.
    expected, held = trained(spec_of(strategy, CASES[name], 2), rank=1)
    assert held == expected


def test_one_of_four_ranks_holds_a_quarter_of_what_is_cut() -> None:
    workload = CASES["llama"]
    whole, _ = trained(spec_of("single", workload, 1), 0)
    quarter, held = trained(spec_of("tp", workload, 4), 3)
    norms = 4 * 3 * 64  # bytes of the norms, which every rank holds: two in the block, one after it
    assert held.parameters == quarter.parameters == (whole.parameters - norms) / 4 + norms


def sums(spec: Spec) -> dict[str, int]:
    """Collectives of one update by kind."""
    from torch.distributed.tensor.debug import CommDebugMode

    seen = CommDebugMode()

    def counted(run: Any) -> None:
        with seen:
            run()

    trained(spec, 0, counted)
    return {str(operation).rpartition(".")[2]: count for operation, count in seen.get_comm_counts().items()}


def test_tensor_parallelism_sums_four_times_per_block_as_megatron_does() -> None:
    spec = spec_of("tp", WORKLOADS["llama"], 2, strategy_options={"loss_parallel": False})
    # 4 blocks x (2 forward, 2 backward), embedding, head's input; torch's own plan sums per layer: 30
    assert sums(spec) == {"all_reduce": 18, "all_gather_into_tensor": 1}


def test_causal_mask_of_the_last_tokens_is_the_one_fused_kernels_know() -> None:
    from torch.nn.attention.bias import causal_lower_right

    from breakeven.strategies.exchange import causal_mask

    cpu = torch.device("cpu")
    assert causal_mask(3, 3, cpu) is None
    assert causal_mask(2, 5, cpu).tolist() == [[True, True, True, True, False], [True] * 5]
    assert torch.equal(causal_mask(2, 5, cpu), causal_lower_right(2, 5)._materialize(cpu))


def test_ranks_that_gather_keys_have_equally_much_to_attend_to() -> None:
    from breakeven.strategies.cp import part

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
    workload = replace(WORKLOADS["llama"], sequence_length=fields.pop("length", LENGTH))
    found = refused(spec_of(strategy, workload, devices, **fields))
    assert (reason in found) if reason else found == ""


def test_heads_that_a_rank_finds_it_cannot_share_are_named() -> None:
    with pytest.raises(UserError, match="8 ranks cannot share 4 attention heads"):
        trained(spec_of("tp", WORKLOADS["llama"], 8), 0)
