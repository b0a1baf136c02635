"""English question-and-answer pairs from chatterbot-corpus: every turn of a conversation answers the one before."""

import itertools
from pathlib import Path

from breakeven.datasets.conversations import Conversation


def chat_en() -> list[Conversation]:
    """Pairs in the order of file names, then of the files: the same on every machine."""
    import yaml  # PyYAML comes with transformers; preparation alone reads YAML
    from chatterbot_corpus.corpus import DATA_DIRECTORY

    pairs = []
    for file in sorted((Path(DATA_DIRECTORY) / "english").glob("*.yml")):
        for turns in yaml.safe_load(file.read_text(encoding="utf-8"))["conversations"]:
            texts = [str(turn).strip() for turn in turns]
            pairs += [Conversation(a, b) for a, b in itertools.pairwise(texts) if a and b]
    return pairs
