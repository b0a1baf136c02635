"""How a strategy divides what it divides, as arithmetic: pieces among stages, stages among ranks, parameters among
shards and optimisers, gradients among buckets."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from breakeven.schema.checks import WORKLOADS
from breakeven.schema.degrees import normal
from breakeven.schema.spec import Spec
from breakeven.schema.strategies import find_strategy
from breakeven.schema.support import refused
from breakeven.strategies import ddp
from breakeven.strategies.averaging import buckets
from breakeven.strategies.mesh import Mesh
from breakeven.strategies.pp import SCHEDULES
from breakeven.strategies.stages import held_by, split
from breakeven.strategies.state import Parameter, chunk
from breakeven.strategies.zero1 import greedy
from breakeven.strategies.zero1 import state as zero1_state

COSTS = st.lists(st.integers(0, 50), min_size=1, max_size=8)
SIZES = st.lists(st.integers(1, 100), max_size=30)


class TestStages:
    def test_a_llama_of_four_layers_makes_two_equal_stages_and_four_whose_last_is_short(self):
        embedding, layers, head = 1, 4, 1
        assert split([1] * (embedding + layers + head), 2) == [range(3), range(3, 6)]
        assert split([1] * 6, 4) == [range(2), range(2, 4), range(4, 5), range(5, 6)]

    @given(costs=COSTS, data=st.data())
    def test_no_split_has_a_dearest_stage_that_costs_less(self, costs, data):
        stages = data.draw(st.integers(1, len(costs)))
        found = split(costs, stages)
        assert [place for run in found for place in run] == list(range(len(costs)))
        assert all(found)
        assert len(found) == stages
        every = itertools.combinations(range(1, len(costs)), stages - 1)
        least = min(max(sum(costs[a:b]) for a, b in itertools.pairwise((0, *cuts, len(costs)))) for cuts in every)
        assert max(sum(costs[place] for place in run) for run in found) == least

    def test_fewer_pieces_than_stages_make_none(self):
        with pytest.raises(ValueError, match="3 pieces make no 4 stages"):
            split([1, 1, 1], 4)

    @given(ranks=st.integers(1, 8), per_rank=st.integers(1, 4), folded=st.booleans())
    def test_every_stage_is_of_one_rank(self, ranks, per_rank, folded):
        held = [held_by(rank, ranks, per_rank, folded=folded) for rank in range(ranks)]
        assert sorted(itertools.chain(*held)) == list(range(ranks * per_rank))
        assert all(stages == sorted(stages) for stages in held)

    @pytest.mark.parametrize("name", SCHEDULES)
    def test_stages_lie_where_torchs_schedule_looks_for_them(self, name):
        from torch.distributed.pipelining._utils import generate_stage_to_rank_mapping

        schedule = SCHEDULES[name]
        per_rank = schedule.stages_per_rank or 3
        mapping = generate_stage_to_rank_mapping(4, 4 * per_rank, style="v" if schedule.folded else "loop")
        for rank in range(4):
            held = held_by(rank, 4, per_rank, folded=schedule.folded)
            assert held == [stage for stage, its in mapping.items() if its == rank]


class TestShards:
    @given(size=st.integers(1, 60), parts=st.integers(1, 12))
    def test_rows_are_cut_as_torch_cuts_them(self, size, parts):
        whole = [len(part) for part in torch.arange(size).chunk(parts)]
        assert [chunk(size, parts, part) for part in range(parts)] == whole + [0] * (parts - len(whole))


class TestOptimizerShards:
    @given(sizes=SIZES, parts=st.integers(1, 8))
    def test_every_parameter_is_of_one_part_and_none_is_over_full(self, sizes, parts):
        found = greedy(sizes, parts)
        assert sorted(itertools.chain(*found)) == list(range(len(sizes)))
        held = [sum(sizes[place] for place in part) for part in found]
        assert max(held) - min(held) <= max(sizes, default=0)

    def test_frozen_parameters_have_no_optimizer_state_and_stay_on_every_rank(self):
        layers = [Parameter("frozen", (100,), False, 4), Parameter("a", (30,), True, 4), Parameter("b", (20,), True, 4)]
        per_rank = [zero1_state(layers, _mesh("replicate", 2, rank), {}, moments=2) for rank in range(2)]
        assert [one.parameters for one in per_rank] == [600, 600]
        assert [one.gradients for one in per_rank] == [200, 200]
        assert [one.optimizer for one in per_rank] == [2 * 4 * 30, 2 * 4 * 20]


class TestBuckets:
    @given(sizes=SIZES, cap=st.integers(1, 200))
    def test_buckets_are_full_and_in_order(self, sizes, cap):
        found = buckets(sizes, cap)
        assert [place for run in found for place in run] == list(range(len(sizes)))
        held = [sum(sizes[place] for place in run) for run in found]
        assert all(total <= cap or len(run) == 1 for total, run in zip(held, found, strict=True))
        assert all(total + sizes[after.start] > cap for total, after in zip(held, found[1:], strict=False))


def _mesh(axis: str, ranks: int, rank: int) -> Mesh:
    class Place:
        def get_local_rank(self, name: str) -> int:
            return rank if name == axis else 0

    return Mesh({axis: ranks}, torch.device("cpu"), Place())


def _refused(strategy: str, devices: int, **changes) -> str:
    degrees = normal(find_strategy(strategy).axes, devices, changes.pop("degrees", {}))
    usual = {"global_batch": 16, "device_kind": "cpu", "device_model": "any", "devices_per_node": 8}
    workload = WORKLOADS[changes.pop("workload", "llama")]
    return refused(Spec(workload=workload, strategy=strategy, devices=devices, degrees=degrees, **usual, **changes))


class TestRefusals:
    def test_what_runs_is_not_refused(self):
        assert _refused("ddp", 2) == ""
        assert _refused("pp", 2, strategy_options={"schedule": "dualpipev", "micro_batches": 8}) == ""
        assert _refused("fsdp*pp", 4, degrees={"pp": 2}) == ""

    def test_a_schedule_that_needs_a_micro_batch_for_each_stage(self):
        why = _refused("pp", 2, strategy_options={"schedule": "dualpipev", "micro_batches": 2})
        assert why == "schedule dualpipev needs a micro-batch for each of its 4 stages: micro_batches 4 or more."

    def test_micro_batches_that_make_no_whole_rounds(self):
        why = _refused("pp", 2, strategy_options={"schedule": "interleaved_1f1b", "micro_batches": 5})
        assert "rounds of 2: micro_batches 4" in why

    @pytest.mark.parametrize("name", [name for name, one in SCHEDULES.items() if one.splits_backward])
    def test_a_split_backward_pass_with_what_torch_gets_wrong(self, name):
        options = {"schedule": name, "micro_batches": 8}
        assert "loses gradients" in _refused("fsdp*pp", 4, degrees={"pp": 2}, strategy_options=options)
        assert "compile" in _refused("pp", 2, strategy_options=options, compile=True)
        assert "channels_last" in _refused("pp", 2, strategy_options=options, memory_format="channels_last")

    def test_evaluation_where_no_rank_has_the_model(self):
        assert "evaluates nothing" in _refused("pp", 2, evaluate_every=2)

    def test_a_static_graph_that_changes_and_hooks_that_no_backward_pass_calls(self):
        assert "not the same" in _refused("ddp", 2, strategy_options={"static_graph": True}, gradient_accumulation=2)
        why = _refused("ddp*pp", 4, degrees={"pp": 2}, strategy_options={"hook": "fp16"})
        assert why.startswith("strategy_options.hook: with a pipeline")

    def test_compiled_blocks_that_would_stay_on_the_first_device(self):
        assert "Use ddp" in _refused("dp", 2, compile=True)


class TestBucketSizes:
    def test_unless_it_is_given_torchs_own_first_bucket_is_small(self):
        defaults = {name: option.default for name, option in ddp.META.options.items()}
        assert ddp.bucket_mb(defaults, "cpu") is None
        assert ddp.bucket_mb({**defaults, "bucket_cap_mb": 5}, "cpu") == 5

    def test_powersgd_has_one_bucket_where_gloo_would_mix_several(self):
        options = {"hook": "powersgd", "bucket_cap_mb": 25}
        assert ddp.bucket_mb(options, "cpu") == 2**20
        assert ddp.bucket_mb(options, "cuda") is None
