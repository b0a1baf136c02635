"""From a workload to the arrays it trains on."""

from pathlib import Path

import numpy as np

from breakeven.datasets.conversations import Conversation
from breakeven.datasets.store import Arrays
from breakeven.schema.catalog import DATASETS, OWN_DATA, WORKLOADS, data_objective
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Workload, data_id


def prepare(workload: Workload, *, file: Path | None = None, model_dir: Path | None = None) -> Arrays:
    """The training split as arrays; ``data_id`` names what they were made from, so that a mix-up shows."""
    images = data_objective(workload.data.name) == "image-classification"
    arrays = _images(workload, file) if images else _text(workload, file, model_dir)
    return {**arrays, "data_id": np.array(data_id(workload))}


def _images(workload: Workload, file: Path | None) -> Arrays:
    data = workload.data
    if data.name == "digits":
        from breakeven.datasets.digits import digits

        return digits()
    if data.name == "digits-large":
        from breakeven.datasets.digits_large import digits_large

        if workload.image_size is None:
            raise UserError("Data set 'digits-large' is made at an image size: the workload names none.")
        return digits_large(workload.image_size)
    from breakeven.datasets.folder import read_folder

    if file is None:
        raise UserError(f"Data set {data.name!r} is a folder of images: name it with --file.")
    # A hub's folder is pinned by the commit it was fetched at, its number of samples by what was fetched.
    return read_folder(file, data.sha256, data.samples)


def _text(workload: Workload, file: Path | None, model_dir: Path | None) -> Arrays:
    from breakeven.datasets.tokenizing import own_tokenizer, pretrained_tokenizer, tokenise

    conversations = _conversations(workload, file)
    if workload.model in WORKLOADS:
        return tokenise(conversations, own_tokenizer(conversations, workload.config))
    return tokenise(conversations, pretrained_tokenizer(workload, model_dir))


def _conversations(workload: Workload, file: Path | None) -> list[Conversation]:
    if workload.data.name == "chat-en":
        from breakeven.datasets.chat_en import chat_en

        return chat_en()
    if workload.data.name == "jsonl":
        from breakeven.datasets.jsonl import read_jsonl

        if file is None:
            raise UserError("Data set 'jsonl' is a file of your own: name it with --file.")
        return read_jsonl(file, workload.data.sha256)
    known = ", ".join([*DATASETS, *OWN_DATA])
    raise UserError(f"Data set {workload.data.name!r} is unknown. Known are {known}.")
