"""What the chat is doing. The controller alone changes it; everything that asks "may this be done now?" reads it."""

from enum import Enum


class Phase(Enum):
    """What is in progress; the value says it to people."""

    LOADING = "the model is loading"
    IDLE = "nothing is in progress"
    ANSWERING = "an answer is in progress"
    COMPARING = "a comparison is in progress"
    CHANGING_MODEL = "another model is loading"

    @property
    def can_be_stopped(self) -> bool:
        """Whether tokens are being made that Esc ends."""
        return self in (Phase.ANSWERING, Phase.COMPARING)
