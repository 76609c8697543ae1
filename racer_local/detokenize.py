"""From tokens to text that may be shown: whole characters only, nothing that may yet turn out a stop string.

Tokens are released one by one with the text that each of them adds, so that the texts of the released tokens joined
are the text of the answer, whatever token borders cut through.
"""

import codecs
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from racer_local.tokens import Token


@dataclass(slots=True)
class _Held:
    token: Token
    start: int
    """Where the token's text begins in the answer."""


class TextStream:
    """Turns committed tokens into released ones.

    A token is held back while its text could be the beginning of a stop string. The text ends before the first stop
    string; the token in which that begins is cut there, and later ones are never released.

    Attributes:
        stopped: Whether a stop string was found.
    """

    def __init__(self, piece: Callable[[int], bytes], stop: Sequence[str] = ()) -> None:
        """Start an answer.

        Args:
            piece: Bytes that a token adds.
            stop: Stop strings; empty ones are ignored.
        """
        self._piece = piece
        self._stop = tuple(s for s in stop if s)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held: list[_Held] = []
        self._text = ""
        """Text from `_base` on: what is held, and nothing before it."""
        self._base = 0
        self.stopped = False

    def push(self, token: Token) -> list[Token]:
        """Add a committed token; returns the tokens that are safe to show now."""
        assert not self.stopped, "nothing follows a stop string"
        text = self._decoder.decode(self._piece(token.id))
        whole = Token(token.id, text, token.source, token.match_len, token.depth, token.step)
        if not self._stop:
            return [whole]
        self._held.append(_Held(whole, self._base + len(self._text)))
        self._text += text
        cut = min((at for s in self._stop if (at := self._text.find(s)) >= 0), default=-1)
        if cut >= 0:
            self.stopped = True
            return self._cut(self._base + cut)
        return self._release(self._base + len(self._text) - self._possible_stop())

    def finish(self) -> list[Token]:
        """End the answer: what is held was no stop string. Half a character at the end is dropped."""
        return self._release(self._base + len(self._text)) + [h.token for h in self._drain()]

    def _possible_stop(self) -> int:
        """Length of the longest end of the text that begins a stop string."""
        return max(
            (
                n
                for s in self._stop
                for n in range(min(len(s) - 1, len(self._text)), 0, -1)
                if self._text.endswith(s[:n])
            ),
            default=0,
        )

    def _release(self, limit: int) -> list[Token]:
        """Release the tokens whose text ends at `limit` or before."""
        out = []
        while self._held:
            first = self._held[0]
            end = first.start + len(first.token.text)
            if end > limit:
                break
            out.append(first.token)
            self._held.pop(0)
        kept = self._held[0].start if self._held else self._base + len(self._text)
        self._text = self._text[kept - self._base :]
        self._base = kept
        return out

    def _cut(self, at: int) -> list[Token]:
        out = self._release(at)
        for held in self._drain():
            if held.start < at:
                out.append(held.token._replace(text=held.token.text[: at - held.start]))
        self._text = ""
        return out

    def _drain(self) -> list[_Held]:
        held, self._held = self._held, []
        return held
