"""Axes and degrees: whatever is given, their product is the device count, and one split is one text."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.schema.degrees import AXES, normal, resolve

SPLIT = st.dictionaries(st.sampled_from(AXES), st.integers(1, 6), min_size=1)


@given(SPLIT, st.data())
def test_the_product_is_the_device_count_and_one_axis_may_follow_from_it(
    split: dict[str, int], data: st.DataObject
) -> None:
    devices = math.prod(split.values())
    left_out = data.draw(st.sampled_from([None, *split]))
    given_degrees = {name: degree for name, degree in split.items() if name != left_out}
    resolved = resolve(list(split), devices, given_degrees)
    assert resolved == split
    assert math.prod(resolved.values()) == devices
    assert list(resolved) == [axis for axis in AXES if axis in split]


@given(SPLIT)
def test_what_a_spec_holds_of_a_split_gives_it_back_and_is_the_same_for_all_ways_to_say_it(
    split: dict[str, int],
) -> None:
    axes, devices = list(split), math.prod(split.values())
    held = normal(axes, devices, split)
    assert len(held) == len(split) - 1
    assert resolve(axes, devices, held) == split
    for name in split:
        said = {axis: degree for axis, degree in split.items() if axis != name}
        assert normal(axes, devices, said) == held


@pytest.mark.parametrize(
    ("axes", "devices", "degrees", "words"),
    [
        (("shard", "tp"), 4, {"shard": 2, "tp": 4}, "shard 2 x tp 4 = 8 needs 8 devices, but the run has 4. Use "
         "shard x tp = 4, or devices 8"),
        (("shard", "tp"), 8, {"tp": 3}, "tp 3 does not divide 8 devices. Use tp = 1 or 2 or 4 or 8"),
        (("shard", "tp"), 4, {}, "give shard or tp: both cannot follow from 4 devices"),
        (("replicate",), 4, {"tp": 2}, "this strategy has no axis 'tp'. It has: replicate"),
        ((), 1, {"tp": 2}, "this strategy has no axis 'tp'. It has: none"),
        ((), 2, {}, "a strategy without axes runs on one device, not on 2"),
    ],
)  # fmt: skip
def test_a_split_that_cannot_be_is_refused_saying_what_could(
    axes: tuple[str, ...], devices: int, degrees: dict[str, int], words: str
) -> None:
    with pytest.raises(ValueError, match=r"^degrees: ") as refused:
        resolve(axes, devices, degrees)
    assert words in str(refused.value)
