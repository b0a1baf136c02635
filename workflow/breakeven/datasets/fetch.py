"""``python -m breakeven.datasets.fetch``: download a model once, pinned by commit. No timed job ever downloads."""

import argparse
import os
import re
import shutil
import sys
from pathlib import Path

from breakeven.schema.errors import UserError

#: Weights as safetensors only: a pickle runs code when it is opened.
PATTERNS = ["*.safetensors", "*.json", "tokenizer*", "*.model", "merges.txt", "vocab.txt", "*.jinja", "LICENSE*"]
UNSAFE = ["*.bin", "*.pt", "*.pth", "*.pkl", "*.ckpt", "*.msgpack", "*.h5", "onnx/*", "original/*"]


def fetch(model: str, revision: str, output: Path, remote_code: bool = False) -> None:
    """Everything the model needs to train, in ``output``; whole or absent."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    if not re.fullmatch(r"[0-9a-f]{40}", revision):
        raise UserError(
            f"Model {model!r}: revision {revision!r} is no commit. Give the 40 hex digits, which never move."
        )
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        snapshot_download(
            repo_id=model,
            revision=revision,
            local_dir=str(part),
            allow_patterns=[*PATTERNS, *(["*.py"] if remote_code else [])],
            ignore_patterns=UNSAFE,
        )
        if not any(part.glob("*.safetensors")):
            raise UserError(f"Model {model!r} at {revision}: holds no .safetensors file. Pickled weights are not used.")
        shutil.rmtree(part / ".cache", ignore_errors=True)
        shutil.rmtree(output, ignore_errors=True)
        os.replace(part, output)
    except GatedRepoError:
        raise UserError(
            f"Model {model!r} is gated: accept its licence on the hub and log in with 'hf auth login'."
        ) from None
    except (RepositoryNotFoundError, RevisionNotFoundError) as error:
        raise UserError(f"Model {model!r} at {revision}: not found on the hub ({type(error).__name__}).") from None
    except (LocalEntryNotFoundError, HfHubHTTPError, ConnectionError) as error:
        first = str(error).strip().split("\n", 1)[0]
        raise UserError(
            f"Model {model!r}: the hub cannot be reached ({first}). Run `snakemake data` where there is a network."
        ) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m breakeven.datasets.fetch", description=__doc__)
    parser.add_argument("--model", required=True, metavar="ORG/NAME")
    parser.add_argument("--revision", required=True, metavar="SHA", help="the commit, 40 hex digits")
    parser.add_argument("--output", required=True, type=Path, metavar="DIR")
    parser.add_argument("--remote-code", action="store_true", help="fetch the model's own Python files too")
    options = parser.parse_args(arguments)
    try:
        fetch(options.model, options.revision, options.output, options.remote_code)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
