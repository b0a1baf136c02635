"""From a workload to the arrays it trains on."""

from pathlib import Path

import numpy as np

from breakeven.datasets.conversations import Conversation
from breakeven.datasets.store import Arrays
from breakeven.schema.catalog import DATASETS, WORKLOADS
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Workload, data_id


def prepare(workload: Workload, *, file: Path | None = None, model_dir: Path | None = None) -> Arrays:
    """The training split as arrays; ``data_id`` names what they were made from, so that a mix-up shows."""
    if workload.data.name == "digits":
        from breakeven.datasets.digits import digits

        arrays = digits()
    else:
        arrays = _tokenised(workload, _conversations(workload, file), model_dir)
    return {**arrays, "data_id": np.array(data_id(workload))}


def _conversations(workload: Workload, file: Path | None) -> list[Conversation]:
    if workload.data.name == "chat-en":
        from breakeven.datasets.chat_en import chat_en

        return chat_en()
    if workload.data.name == "jsonl":
        from breakeven.datasets.jsonl import read_jsonl

        if file is None:
            raise UserError("Data set 'jsonl' is a file of your own: name it with --file.")
        return read_jsonl(file, workload.data.sha256)
    known = ", ".join([*DATASETS, "jsonl"])
    raise UserError(f"Data set {workload.data.name!r} is unknown. Known are {known}.")


def _tokenised(workload: Workload, conversations: list[Conversation], model_dir: Path | None) -> Arrays:
    from breakeven.datasets.tokenizing import own_tokenizer, pretrained_tokenizer, tokenise

    if workload.model in WORKLOADS:
        return tokenise(conversations, own_tokenizer(conversations, workload.config))
    return tokenise(conversations, pretrained_tokenizer(workload, model_dir))
