"""Text to token ids. A family built from a config has no tokenizer, so one is trained on the very text; a model with
weights brings its own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from breakeven.datasets.conversations import Conversation
from breakeven.datasets.store import Arrays
from breakeven.schema.errors import UserError
from breakeven.schema.spec import Json, Workload

DEFAULT_VOCAB_SIZE = 2048
SPECIAL_TOKENS = ("<pad>", "<bos>", "<eos>")


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """``prompt`` makes the ids before the response (all that bear no loss), ``text`` those of the response itself."""

    prompt: Callable[[str], list[int]]
    text: Callable[[str], list[int]]
    start: list[int]
    """Ids a text without a prompt begins with."""
    end: list[int]
    """Ids every sample ends with."""
    pad: int
    size: int
    """Every id is below it."""


def tokenise(conversations: list[Conversation], tokenizer: Tokenizer) -> Arrays:
    """Ragged arrays: ``input_ids`` int32 flat, ``offsets`` int64 (N + 1,), ``prompt_lengths`` int32 (N,)."""
    rows, prompts = [], []
    for conversation in conversations:
        before = tokenizer.prompt(conversation.prompt) if conversation.prompt else []
        rows.append((before or tokenizer.start) + tokenizer.text(conversation.response) + tokenizer.end)
        prompts.append(len(before))
    return {
        "input_ids": np.array([token for row in rows for token in row], dtype=np.int32),
        "offsets": np.cumsum([0, *map(len, rows)], dtype=np.int64),
        "prompt_lengths": np.array(prompts, dtype=np.int32),
        "pad_id": np.array(tokenizer.pad, dtype=np.int64),
        "vocab_size": np.array(tokenizer.size, dtype=np.int64),
    }


def own_tokenizer(conversations: list[Conversation], config: Json) -> Tokenizer:
    """A byte-level BPE trained on the samples themselves. Training is deterministic: equal text, equal merges."""
    from tokenizers import ByteLevelBPETokenizer

    size = int(config.get("vocab_size", DEFAULT_VOCAB_SIZE))
    least = 256 + len(SPECIAL_TOKENS)
    if size < least:
        raise UserError(f"vocab_size {size} is too small for a byte-level tokenizer. Use {least} or more.")
    bpe = ByteLevelBPETokenizer()
    texts = [text for one in conversations for text in (one.prompt, one.response) if text]
    bpe.train_from_iterator(
        texts, vocab_size=size, min_frequency=2, special_tokens=list(SPECIAL_TOKENS), show_progress=False
    )
    pad, bos, eos = (bpe.token_to_id(token) for token in SPECIAL_TOKENS)

    def ids(text: str) -> list[int]:
        encoded: list[int] = bpe.encode(text).ids
        return encoded

    return Tokenizer(prompt=lambda text: [bos, *ids(text + "\n")], text=ids, start=[bos], end=[eos], pad=pad, size=size)


def pretrained_tokenizer(workload: Workload, model_dir: Path | None) -> Tokenizer:
    """The model's own tokenizer, with its chat template where it has one."""
    from transformers.models.auto.tokenization_auto import AutoTokenizer

    folder = model_dir or Path(workload.model)
    if not folder.is_dir():
        raise UserError(
            f"Model {workload.model!r}: no folder {folder} with its tokenizer. Give a local model folder, or fetch the "
            "model first (python -m breakeven.datasets.fetch)."
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            str(folder), local_files_only=True, trust_remote_code=workload.trust_remote_code
        )
    except (OSError, ValueError) as error:
        raise UserError(f"{folder}: holds no tokenizer that transformers can read ({error}).") from None
    bos, eos = tokenizer.bos_token_id, tokenizer.eos_token_id
    start = [] if bos is None else [bos]

    def ids(text: str) -> list[int]:
        encoded: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return encoded

    def prompt(text: str) -> list[int]:
        if tokenizer.chat_template:
            turn = [{"role": "user", "content": text}]
            return ids(tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False))
        return [*start, *ids(text + "\n")]

    return Tokenizer(
        prompt=prompt,
        text=ids,
        start=start,
        end=[] if eos is None else [eos],
        pad=next((token for token in (tokenizer.pad_token_id, eos) if token is not None), 0),
        size=len(tokenizer),
    )
