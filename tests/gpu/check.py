"""Everything that only a machine with NVIDIA GPUs can show, by one command, in about five minutes on one GPU:

``python tests/gpu/check.py``

Needs a CUDA build of torch, transformers, peft, numpy, scikit-learn, pytest and hypothesis in this Python, and nothing
installed of the project itself. Uses one GPU, and two where there are two. Arguments are pytest's (``-k clock``). Exit
code 1 where a test fails, 2 where there is no GPU to test.
"""

import os
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    sys.path.insert(0, str(ROOT / "workflow"))
    from breakeven.measure.nvidia import visible_gpus

    gpus = visible_gpus()
    if not gpus:
        print("no NVIDIA GPU here (nvidia-smi shows none): nothing was tested", file=sys.stderr)
        return 2
    import torch

    if not torch.cuda.is_available():
        print(f"torch {torch.__version__} cannot use the GPU here: install a CUDA build of it", file=sys.stderr)
        return 2
    search = [str(ROOT / "workflow"), *filter(None, [os.environ.get("PYTHONPATH")])]
    # Launchers that the tests start as a user would find the package too.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(search), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "pytest", "tests/gpu", "-p", "no:cacheprovider", "--durations=8", "-v"]
    began = time.monotonic()
    code = subprocess.run([*command, *sys.argv[1:]], cwd=ROOT, env=environment, check=False).returncode
    names = ", ".join(f"{count} x {name}" for name, count in counted([gpu.name for gpu in gpus]).items())
    libraries = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "peft", "numpy"))
    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    took_s = time.monotonic() - began
    print(f"\n{'passed' if code == 0 else 'FAILED'} on {names}, driver {gpus[0].driver}, CUDA {torch.version.cuda}, "
          f"NCCL {nccl}, Python {sys.version.split()[0]}, {libraries}, in {took_s:.0f} s")  # fmt: skip
    return int(code != 0)


def counted(names: list[str]) -> dict[str, int]:
    return {name: names.count(name) for name in dict.fromkeys(names)}


if __name__ == "__main__":
    sys.exit(main())
