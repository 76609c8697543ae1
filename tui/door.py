"""What the command lines may ask of the chat. Each part is loaded when it is asked for: few need Textual."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from racer_local.terminal import Look, Progress, Terminal

from .events import Opener


class Door(Terminal):
    """The chat as `racer_local.terminal` describes it."""

    def start(
        self,
        open_racer: Opener,
        *,
        title: str,
        system: str | None,
        resume: str | None,
        options: dict[str, Any],
        loading: dict[str, Any] | None,
        look: Look,
    ) -> int:
        """See `Terminal`."""
        from .start import start

        return start(open_racer, title=title, system=system, resume=resume, options=options, loading=loading, look=look)

    def play(self, recording: Path, speed: float, *, look: Look) -> int:
        """See `Terminal`."""
        from .start import play

        return play(recording, speed, look=look)

    def session_lines(self) -> list[str]:
        """See `Terminal`."""
        from .session_folder import lines

        return lines()

    def check_recording(self, path: Path) -> None:
        """See `Terminal`."""
        from .recording import check_new

        check_new(path)

    def record(self, path: Path, racer: Any) -> Any:
        """See `Terminal`."""
        from .recording import Recording

        return Recording(path, racer)

    def draw_picture(
        self, recording: Path, out: Path, *, size: str, keys: Sequence[str], until: float | None, questions: int
    ) -> None:
        """See `Terminal`."""
        from .picture import draw, parse_size

        draw(recording, out, size=parse_size(size), keys=keys, until=until, questions=questions)

    def time_interface(
        self, model: Path, max_tokens: int, key_tokens: int, repeats: int, on_progress: Progress
    ) -> tuple[list[dict[str, Any]], str]:
        """See `Terminal`."""
        from .timing import as_dicts, measure, table

        timings = measure(model, max_tokens, key_tokens, repeats, on_progress)
        return as_dicts(timings), table(timings)
