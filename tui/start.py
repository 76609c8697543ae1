"""Starting the chat with what the command line asks for."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from racer_local import locations, registry
from racer_local.errors import UsageError
from racer_local.terminal import Look

from . import app
from .events import Opener
from .replay import Replayed
from .session import Session
from .session_folder import latest

if TYPE_CHECKING:
    from racer_local.api import Racer


def start(
    open_racer: Opener,
    *,
    title: str,
    system: str | None,
    resume: str | None,
    options: dict[str, Any],
    loading: dict[str, Any] | None,
    look: Look,
) -> int:
    """See `racer_local.terminal.Terminal.start`."""
    wrong = sorted(set(look.keys) - app.KEY_NAMES)
    if wrong:
        raise UsageError(f"[keys] knows {', '.join(sorted(app.KEY_NAMES))}, not {', '.join(wrong)}")
    session = _session(title, system, resume)

    open_model = None if loading is None else _opener(loading)
    return app.run(open_racer, session=session, options=options, title=title, open_model=open_model, look=look)


def play(recording: Path, speed: float, *, look: Look) -> int:
    """See `racer_local.terminal.Terminal.play`."""
    replayed = Replayed(recording, speed)

    def suggest() -> str:
        return replayed.next_answer.typed

    with TemporaryDirectory() as folder:
        session = Session.begin(Path(folder), recording.name)
        options: dict[str, Any] = {}
        return app.run(
            lambda _: replayed, session=session, options=options, title=recording.name, look=look, suggest=suggest
        )


def _opener(loading: dict[str, Any]) -> Callable[[str], Opener]:
    """Makes a function that loads a model, by its name or path."""

    def open_model(name: str) -> Opener:
        path = registry.find_model(name)

        def load(on_progress: Callable[[float], bool]) -> "Racer":
            from racer_local.api import Racer

            return Racer(path, on_progress=on_progress, **loading)

        return load

    return open_model


def _session(title: str, system: str | None, resume: str | None) -> Session:
    folder = locations.sessions_dir()
    if resume is None:
        return Session.begin(folder, title, system or "")
    if not resume:
        found = latest(folder)
        if found is None:
            raise UsageError("there is no conversation to go on with yet")
        resume = found
    session = Session.resume(folder, resume)
    if system is not None:
        session.set_system(system)
    return session
