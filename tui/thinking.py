"""Telling what a model thinks from what it answers: text between think tags at the beginning of an answer."""

OPEN, CLOSE = "<think>", "</think>"


class ThoughtSplitter:
    """Splits an answer that comes in pieces. What is between the tags is thought, what follows is the answer.

    Attributes:
        thinking: Whether the closing tag is still to come.
    """

    def __init__(self, *, opened: bool = False) -> None:
        """Begin an answer; `opened` where the prompt itself ended with the opening tag."""
        self.thinking = opened
        self._decided = opened
        self._after_close = False
        self._held = ""

    def feed(self, piece: str) -> tuple[str, str]:
        """Take in a piece; returns what it adds to the thought and to the answer.

        A text that may become a tag is held back until that is clear.
        """
        text, self._held = self._held + piece, ""
        if not self._decided:
            start = text.lstrip()
            if len(start) < len(OPEN) and OPEN.startswith(start):
                self._held = text
                return "", ""
            self._decided = True
            if not start.startswith(OPEN):
                return "", text
            self.thinking = True
            text = start[len(OPEN) :]
        if not self.thinking:
            return "", self._answer(text)
        thought, tag, rest = text.partition(CLOSE)
        if tag:
            self.thinking = False
            self._after_close = True
            return thought, self._answer(rest)
        n = next((n for n in range(min(len(CLOSE) - 1, len(text)), 0, -1) if CLOSE.startswith(text[-n:])), 0)
        if n:
            thought, self._held = text[:-n], text[-n:]
        return thought, ""

    def finish(self) -> tuple[str, str]:
        """The answer is over: what was held back."""
        held, self._held = self._held, ""
        return (held, "") if self.thinking else ("", held)

    def _answer(self, text: str) -> str:
        """Answer text, without the blank lines that separate it from the thought."""
        if self._after_close:
            text = text.lstrip("\n")
            self._after_close = not text
        return text


def split(text: str, *, opened: bool = False) -> tuple[str, str]:
    """Thought and answer of a whole text."""
    splitter = ThoughtSplitter(opened=opened)
    thought, answer = splitter.feed(text)
    more, rest = splitter.finish()
    return thought + more, answer + rest


def opens_thought(prompt_end: str) -> bool:
    """Whether a prompt ends with the opening tag."""
    return prompt_end.rstrip().endswith(OPEN)
