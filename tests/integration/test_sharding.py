"""That shards are gathered when their strategy says so."""

import pytest

from tests.ranks import on_ranks, prepared, spec

pytestmark = pytest.mark.integration

#: Of the model: four layers, and all that is around them.
GROUPS = 5


@pytest.fixture(scope="module")
def gathers():
    names = ("fsdp", "zero2")
    return on_ranks(2, _gathers, {name: spec(name, 2, "llama") for name in names})[0]


def _gathers(rank, specs):
    """Gathers in each of two updates."""
    from torch.distributed.tensor.debug import CommDebugMode

    found = {}
    for name, one in specs.items():
        run = prepared(one)
        found[name] = []
        for _ in range(2):
            with CommDebugMode() as seen:
                run.update()
            counts = {str(operation): count for operation, count in seen.get_comm_counts().items()}
            found[name].append(sum(count for operation, count in counts.items() if "allgather" in operation))
    return found


def test_parameters_stay_from_the_forward_to_the_backward_pass_in_zero2(gathers):
    assert gathers["zero2"] == [GROUPS, GROUPS]


def test_parameters_are_gathered_anew_for_the_backward_pass_in_fsdp(gathers):
    assert gathers["fsdp"] == [2 * GROUPS, 2 * GROUPS]
