"""What an update trains on depends on the seed and the update alone, and every rank can count it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.datasets.batches import IGNORED, Texts, epoch_order, global_batch_indices, rank_part, read, schedule
from breakeven.datasets.store import write_arrays
from breakeven.schema.errors import UserError


@st.composite
def texts(draw) -> Texts:
    lengths = draw(st.lists(st.integers(1, 30), min_size=1, max_size=20))
    prompts = [draw(st.integers(0, length)) for length in lengths]
    return Texts(
        input_ids=np.arange(sum(lengths), dtype=np.int32) + 1,
        offsets=np.cumsum([0, *lengths], dtype=np.int64),
        prompt_lengths=np.array(prompts, dtype=np.int32),
        pad_id=0,
        vocab_size=1000,
        sequence_length=draw(st.integers(1, 24)),
    )


@given(
    samples=st.integers(1, 50),
    local=st.integers(1, 6),
    devices=st.sampled_from([1, 2, 3, 4, 8]),
    update=st.integers(0, 40),
    seed=st.integers(0, 5),
)
def test_the_ranks_parts_together_are_the_global_batch_in_order(samples, local, devices, update, seed):
    whole = global_batch_indices(samples, local * devices, update, seed)
    parts = [rank_part(whole, rank, devices) for rank in range(devices)]
    assert [len(part) for part in parts] == [local] * devices
    assert np.concatenate(parts).tolist() == whole.tolist()


@given(samples=st.integers(1, 40), batch=st.integers(1, 64), seed=st.integers(0, 3))
def test_every_epoch_holds_every_sample_once_even_where_a_batch_crosses_its_end(samples, batch, seed):
    updates = -(-3 * samples // batch)
    seen = np.concatenate([global_batch_indices(samples, batch, update, seed) for update in range(updates)])
    for epoch in range(3):
        assert sorted(seen[epoch * samples : (epoch + 1) * samples]) == list(range(samples))


def test_the_order_of_an_epoch_is_pinned_down_to_the_sample():
    # A change here is a change of every measured loss: raise MEASURE_VERSION.
    assert epoch_order(10, epoch=0, seed=0).tolist() == [6, 1, 0, 5, 3, 8, 7, 9, 2, 4]
    assert epoch_order(10, epoch=1, seed=0).tolist() == [7, 3, 5, 0, 1, 4, 6, 8, 9, 2]


@given(data=texts(), batch=st.integers(1, 8), update=st.integers(0, 9))
def test_token_counts_are_those_of_the_batch_itself(data, batch, update):
    indices = global_batch_indices(data.samples, batch, update, seed=1)
    work, taken = data.work(indices), data.take(indices)
    assert work.samples == batch
    assert work.tokens_padded == taken["input_ids"].size
    assert work.tokens == (taken["input_ids"] != data.pad_id).sum()
    assert work.tokens_loss == (taken["labels"][:, 1:] != IGNORED).sum()  # logits t predict token t + 1


@given(data=texts())
def test_loss_falls_on_the_response_and_never_on_the_prompt_or_padding(data):
    taken = data.take(np.arange(data.samples))
    for row, prompt, length in zip(taken["labels"], data.prompt_lengths, data.lengths, strict=True):
        first = max(prompt, 1)
        assert (row[:first] == IGNORED).all()
        assert (row[first:length] != IGNORED).all()
        assert (row[length:] == IGNORED).all()


def arrays(**changes):
    ragged = {
        "data_id": np.array("chat-en-1"),
        "input_ids": np.arange(9, dtype=np.int32),
        "offsets": np.array([0, 4, 9]),
        "prompt_lengths": np.array([2, 3], dtype=np.int32),
        "pad_id": np.array(0),
        "vocab_size": np.array(9),
    }
    return {**ragged, **changes}


def test_an_epoch_counts_the_tokens_that_survive_cutting(tmp_path):
    write_arrays(tmp_path / "d.npz", arrays())
    data = read(tmp_path / "d.npz", data_id="chat-en-1", sequence_length=4)
    assert (data.samples, data.epoch_tokens) == (2, 8)
    assert len(schedule(data, global_batch=2, updates=5, seed=0)) == 5


def test_data_prepared_for_another_run_is_refused(tmp_path):
    write_arrays(tmp_path / "d.npz", arrays())
    with pytest.raises(UserError, match=r"holds data chat-en-1, but the run needs chat-en-2"):
        read(tmp_path / "d.npz", data_id="chat-en-2", sequence_length=4)


def test_a_sequence_length_that_leaves_no_loss_is_refused_with_the_least_that_does(tmp_path):
    write_arrays(tmp_path / "d.npz", arrays())
    with pytest.raises(UserError, match="Use 4 or more"):
        read(tmp_path / "d.npz", data_id="chat-en-1", sequence_length=2)


def test_equal_arrays_are_equal_bytes(tmp_path):
    write_arrays(tmp_path / "a.npz", arrays())
    write_arrays(tmp_path / "b.npz", dict(reversed(arrays().items())))
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "b.npz"]


@pytest.mark.parametrize("damage", [b"", b"PK", b"not an archive"])
def test_damaged_data_are_refused_and_named(tmp_path, damage):
    path = tmp_path / "data.npz"
    path.write_bytes(damage)
    with pytest.raises(UserError, match=r"data.npz: not readable .* Delete it, and it is prepared again"):
        read(path, data_id="x", sequence_length=None)
