"""System descriptions as submitters write them: numbers as text, names in many spellings, no accelerators at all."""

import json
from typing import Any

import pytest

from breakeven.mlperf.systems import System, family, read_system
from tests.mlperf_repository import SYSTEM

#: Every accelerator_model_name of v4.1 and v5.1, and those seen in v3.0, v3.1, v4.0, v5.0 and v6.0.
FAMILIES = {
    "AMD Instinct MI300X 192GB HBM3": "MI300X",
    "AMD Instinct MI325X 256GB HBM3E": "MI325X",
    "AMD Instinct MI325X 256GB HBM3E DLC": "MI325X",
    "AMD Instinct MI325X 256GB HBM3e": "MI325X",
    "AMD Instinct MI350X": "MI350X",
    "AMD Instinct MI355X": "MI355X",
    "AMD Radeon RX 7900 XTX": "RX-7900XTX",
    "H100 NVL Tensor Core GPU (PCIe)": "H100-NVL",
    "Habana Gaudi2": "Gaudi2",
    "Intel Gaudi2": "Gaudi2",
    "Intel(R) Gaudi(R) 2 AI Accelerator": "Gaudi2",
    "NVIDIA A100 - PCIe - 80 GB": "A100-PCIe",
    "NVIDIA A100-PCIe-80GB": "A100-PCIe",
    "NVIDIA A100-SXM-40GB": "A100-SXM-40GB",
    "NVIDIA A100-SXM-80GB CTS": "A100-SXM-CTS",
    "NVIDIA A100-SXM4-80GB": "A100-SXM",
    "NVIDIA A10G": "A10G",
    "NVIDIA A30": "A30",
    "NVIDIA A40": "A40",
    "NVIDIA Blackwell GPU (B200-SXM-180GB)": "B200-SXM",
    "NVIDIA Blackwell GPU (GB200)": "GB200",
    "NVIDIA Blackwell Ultra GPU (B300-SXM-270GB)": "B300-SXM",
    "NVIDIA Blackwell Ultra GPU (GB300)": "GB300",
    "NVIDIA GeForce RTX 4090": "RTX-4090",
    "NVIDIA H100 80GB HBM3": "H100-SXM",
    "NVIDIA H100-PCIe": "H100-PCIe",
    "NVIDIA H100-PCIe-80GB": "H100-PCIe",
    "NVIDIA H100-SXM-80GB": "H100-SXM",
    "NVIDIA H100-SXM5-80GB": "H100-SXM",
    "NVIDIA H100-SXM5-96GB": "H100-SXM-96GB",
    "NVIDIA H200 NVL 141GB": "H200-NVL",
    "NVIDIA H200-NVL-141GB": "H200-NVL",
    "NVIDIA H200-SXM5-141GB": "H200-SXM",
    "NVIDIA Hopper GPU (GH200)": "GH200",
    "NVIDIA L4": "L4",
    "NVIDIA L40": "L40",
    "NVIDIA L40S": "L40S",
    "NVIDIA RTX A5000": "RTX-A5000",
    "NVIDIA RTX Pro 6000 SE PCIe 96GB": "RTX-PRO-6000",
    "TPU-trillium": "Trillium",
    "TPU-v5e": "TPU-v5e",
    "TPU-v5p": "TPU-v5p",
}


def described(**description: Any) -> tuple[System, list[tuple[str, str]]]:
    system, problems = read_system(json.dumps({**SYSTEM, **description}).encode())
    assert system is not None
    return system, [(problem.kind, problem.detail) for problem in problems]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_published_name_has_its_family(name: str) -> None:
    assert family(name) == FAMILIES[name]


@pytest.mark.parametrize("name", ["NVIDIA H100", "H100", "NVIDIA L40S 48GB", "box with NVIDIA L40S", "TPU-v5p-128", ""])
def test_a_name_that_is_not_exactly_one_of_these_belongs_to_no_family(name: str) -> None:
    assert family(name) is None


def test_an_ordinary_description() -> None:
    assert described() == (
        System(
            name="box",
            accelerator="NVIDIA H100-SXM5-80GB",
            family="H100-SXM",
            nodes=1,
            accelerators_per_node=8,
            devices=8,
            division="closed",
            status="Available on-premise",
        ),
        [],
    )


@pytest.mark.parametrize("nodes", [64, "64", " 64 ", 64.0])
def test_numbers_come_as_numbers_and_as_text(nodes: object) -> None:
    assert described(number_of_nodes=nodes)[0].devices == 512


@pytest.mark.parametrize("nodes", [0, "0", -1, "", "two", "1.5", 1.5, None, [8], True, 1e300, "9" * 5000, float("nan")])
def test_a_number_that_cannot_be_right_is_unknown_and_listed(nodes: object) -> None:
    system, problems = described(number_of_nodes=nodes)
    assert (system.nodes, system.devices, system.accelerators_per_node) == (None, None, 8)
    [(kind, detail)] = problems
    assert kind == "bad_system_description"
    assert detail.startswith("number_of_nodes is ")
    assert detail.endswith("expected a whole number above 0")
    assert len(detail) < 300


def test_an_unknown_name_is_its_own_family_and_listed() -> None:
    system, problems = described(accelerator_model_name=" NVIDIA R100-SXM8-1TB ")
    assert (system.accelerator, system.family, system.devices) == ("NVIDIA R100-SXM8-1TB", "NVIDIA R100-SXM8-1TB", 8)
    assert problems == [("unknown_accelerator", "NVIDIA R100-SXM8-1TB")]


@pytest.mark.parametrize(("number", "name"), [("0", "N/A"), (0, "N/A"), ("", ""), ("N/A", "-")])
def test_a_system_without_accelerators_counts_processors(number: object, name: str) -> None:
    xeon = {"accelerators_per_node": number, "accelerator_model_name": name, "number_of_nodes": "16"}
    system, problems = described(**xeon, host_processor_model_name="Intel(R) Xeon(R) Platinum 8480+")
    assert (system.family, system.devices, system.accelerators_per_node) == ("CPU", 32, 0)
    assert system.accelerator == "Intel(R) Xeon(R) Platinum 8480+"
    assert problems == [("no_accelerators", "devices are processors: Intel(R) Xeon(R) Platinum 8480+")]


def test_accelerators_with_a_name_and_no_number_are_not_taken_for_none() -> None:
    system, problems = described(accelerators_per_node="0")
    assert (system.family, system.devices) == ("H100-SXM", None)
    assert [kind for kind, _ in problems] == ["bad_system_description"]


def test_text_that_is_missing_or_no_text() -> None:
    system, problems = described(division=None, status="", system_name=["a"], accelerator_model_name={"a": 1})
    assert (system.division, system.status, system.name, system.accelerator, system.family) == ("",) * 5
    assert [kind for kind, _ in problems] == ["bad_system_description"] * 4


def test_a_division_that_is_not_said_is_not_the_closed_one() -> None:
    system, problems = described(division=" ")
    assert system.division == ""
    assert problems == [("bad_system_description", "division is missing or empty; expected text")]


def test_a_value_that_python_cannot_write_out_is_a_problem_like_any_other() -> None:
    _, problems = described(division=json.loads("[" * 900 + "]" * 900))
    assert [kind for kind, _ in problems] == ["bad_system_description"]


def test_text_is_one_line() -> None:
    assert described(system_name="a\nb\x00\u202e")[0].name == "a\\nb\\x00\\u202e"


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"null", b"\xff\xfe\x00", b"[" * 100_000, b'{"a": ' + b"9" * 5000]
)
def test_what_is_no_description_at_all(content: bytes) -> None:
    system, [problem] = read_system(content)
    assert (system, problem.kind) == (None, "bad_system_description")


def test_a_byte_order_mark_is_no_problem() -> None:
    assert read_system(b"\xef\xbb\xbf" + json.dumps(SYSTEM).encode())[1] == []
