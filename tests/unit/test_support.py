"""What a machine lacks is the reason of a run that cannot be, told before torch is asked."""

from pathlib import Path

import pytest

from breakeven.schema.spec import DataSource, Spec, Workload
from breakeven.schema.support import unsupported


def spec(device_kind: str) -> Spec:
    return Spec(
        workload=Workload(model="resnet", data=DataSource(name="digits"), image_size=32),
        strategy="ddp",
        device_kind=device_kind,
        device_model="x",
        devices=2,
        devices_per_node=2,
        global_batch=8,
        compile=True,
    )


@pytest.mark.parametrize(
    ("device_kind", "program", "says"),
    [
        ("cpu", "gcc", "compile needs a compiler (g++), which this machine lacks"),
        ("cuda", "g++", "compile needs a compiler (gcc or clang), which this machine lacks"),
    ],
)
def test_a_machine_without_the_compiler_that_torch_asks_for_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, device_kind: str, program: str, says: str
) -> None:
    (tmp_path / program).write_text("#!/bin/sh\n")
    (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    assert unsupported(spec(device_kind)) == says


def test_a_compiler_that_is_named_is_the_one_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "a compiler (CXX=no-such-compiler)" in unsupported(spec("cpu"))


def test_pythons_headers_are_asked_for_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", "sh")
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    assert f"Python's headers ({tmp_path}/Python.h)" in unsupported(spec("cpu"))
