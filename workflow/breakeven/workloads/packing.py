"""Keeps a language model's forward pass from waiting for the device."""

from typing import Any


def never_packed() -> None:
    """transformers looks at the positions of every batch to see whether several texts share a row, and the host waits
    for the device to tell. Ours never do, nor do a rank's own tokens of a text: their positions follow each other."""
    import transformers.masking_utils as masks

    if hasattr(masks, "find_packed_sequence_indices"):
        masks.find_packed_sequence_indices = _never


def _never(position_ids: Any) -> None:
    return None
