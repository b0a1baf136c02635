"""Prepared data is the same everywhere, and a file of the user's own is refused with what would be right."""

import hashlib
import json

import numpy as np
import pytest

from breakeven.datasets.__main__ import main
from breakeven.datasets.jsonl import read_jsonl
from breakeven.schema.catalog import DATASETS, WORKLOADS
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Workload, data_id

LLAMA = {"model": "llama", "data": {"name": "jsonl"}, "sequence_length": 32, "config": {"vocab_size": 300}}


def jsonl(tmp_path, *lines: str):
    file = tmp_path / "own.jsonl"
    file.write_text("\n".join(lines) + "\n")
    return file


GOOD = '{"prompt": "What is 2 + 2?", "response": "4"}'


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{not json", r"line 2: not JSON .* at column 2"),
        ("[1]", r"line 2: a JSON list, not an object"),
        ('{"prompt": "a"}', r"line 2: key 'response' is missing"),
        ('{"response": "a"}', r"line 2: key 'prompt' is missing"),
        ('{"question": "a"}', r"line 2: key 'text' is missing"),
        ('{"text": 3}', r"line 2: 'text' holds int, not text"),
        ('{"prompt": "a", "response": " "}', r"line 2: 'response' is empty"),
    ],
)
def test_a_bad_line_is_named_with_file_number_and_what_would_be_right(tmp_path, line, says):
    file = jsonl(tmp_path, GOOD, line)
    with pytest.raises(UserError, match=says) as raised:
        read_jsonl(file)
    assert str(file) in str(raised.value)


def test_a_missing_or_empty_or_changed_file_is_named(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        read_jsonl(tmp_path / "none.jsonl")
    with pytest.raises(UserError, match="holds no sample"):
        read_jsonl(jsonl(tmp_path, ""))
    with pytest.raises(UserError, match="the run is named for 0000"):
        read_jsonl(jsonl(tmp_path, GOOD), sha256="0000")


def test_bytes_that_are_no_utf8_are_found_by_line(tmp_path):
    file = tmp_path / "latin.jsonl"
    file.write_bytes(GOOD.encode() + b'\n{"text": "caf\xe9"}\n')
    with pytest.raises(UserError, match="line 2: not UTF-8"):
        read_jsonl(file)


def test_a_file_of_ones_own_is_read_in_order_with_or_without_prompts(tmp_path):
    file = jsonl(tmp_path, GOOD, "", '{"text": "All of this bears loss."}')
    samples = read_jsonl(file, hashlib.sha256(file.read_bytes()).hexdigest())
    assert [(one.prompt, one.response) for one in samples] == [
        ("What is 2 + 2?", "4"),
        ("", "All of this bears loss."),
    ]


def test_the_command_line_prepares_a_file_of_ones_own(tmp_path):
    file = jsonl(tmp_path, GOOD, '{"text": "All of this bears loss."}')
    output = tmp_path / "data" / "own.npz"
    assert main(["--workload", json.dumps(LLAMA), "--file", str(file), "--output", str(output)]) == 0
    with np.load(output) as arrays:
        assert str(arrays["data_id"]) == data_id(Workload.from_dict(LLAMA))
        assert len(arrays["prompt_lengths"]) == 2
        assert arrays["prompt_lengths"][0] > 1
        assert arrays["prompt_lengths"][1] == 0
        assert arrays["input_ids"].max() < arrays["vocab_size"] == 300


def test_the_command_line_says_what_is_wrong_without_a_traceback(tmp_path, capsys):
    file = jsonl(tmp_path, "{}")
    assert main(["--workload", json.dumps(LLAMA), "--file", str(file), "--output", str(tmp_path / "o.npz")]) == 2
    assert capsys.readouterr().err == f"{file}, line 1: key 'text' is missing. Each line is to be {FORMS}.\n"
    assert not (tmp_path / "o.npz").exists()


FORMS = '{"prompt": "…", "response": "…"} or {"text": "…"}'


def test_the_digits_are_split_the_same_way_everywhere(tmp_path):
    workload = {"model": "mobilenet_v2", "data": {"name": "digits"}, "image_size": 32}
    output = tmp_path / "digits.npz"
    assert main(["--workload", json.dumps(workload), "--output", str(output)]) == 0
    with np.load(output) as arrays:
        assert arrays["images"].shape == (1500, 8, 8)
        assert arrays["images"].max() == 16
        assert arrays["labels"][:10].tolist() == LABELS
        assert len(arrays["labels"]) == DATASETS["digits"].samples
        assert len(arrays["test_labels"]) == 297


LABELS = [0, 7, 9, 5, 8, 1, 3, 3, 7, 0]


def test_the_chat_corpus_makes_2361_pairs_of_equal_bytes_twice(tmp_path):
    workload = json.dumps({"model": "llama", "data": {"name": "chat-en"}, "sequence_length": 64})
    outputs = [tmp_path / name for name in ("a.npz", "b.npz")]
    assert [main(["--workload", workload, "--output", str(output)]) for output in outputs] == [0, 0]
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    with np.load(outputs[0]) as arrays:
        assert len(arrays["prompt_lengths"]) == DATASETS["chat-en"].samples == 2361
        assert arrays["input_ids"].max() < 2048


def test_a_model_with_weights_needs_its_folder(tmp_path, capsys):
    workload = json.dumps({**LLAMA, "model": "org/name"})
    arguments = ["--workload", workload, "--file", str(jsonl(tmp_path, GOOD)), "--output", str(tmp_path / "o.npz")]
    assert main(arguments) == 2
    assert "Give a local model folder, or fetch the model first" in capsys.readouterr().err


def test_the_keys_of_a_model_that_a_study_may_set_are_keys_of_its_config():
    from transformers.models.llama.configuration_llama import LlamaConfig
    from transformers.models.mobilenet_v2.configuration_mobilenet_v2 import MobileNetV2Config
    from transformers.models.resnet.configuration_resnet import ResNetConfig
    from transformers.models.vit.configuration_vit import ViTConfig

    configs = {"llama": LlamaConfig, "mobilenet_v2": MobileNetV2Config, "resnet": ResNetConfig, "vit": ViTConfig}
    assert set(configs) == set(WORKLOADS)
    ours = {"norm"}
    for name, config in configs.items():
        assert set(WORKLOADS[name].config_keys) - ours <= set(vars(config())) | set(config().to_dict()), name
