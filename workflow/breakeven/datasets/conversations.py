"""One training sample of a language model, before it is tokenised."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Conversation:
    """A prompt and the response to it; loss falls on the response. An empty prompt: loss on all of the text."""

    prompt: str
    response: str
