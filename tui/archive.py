"""The folder of sessions: what there is, what was said in it, and taking one out."""

from pathlib import Path

from racer_local import locations
from racer_local.errors import RacerError
from racer_local.terminal_text import neutral, one_line

from .sessions import ENDING, TITLE_LENGTH, Conversation, read


def list_sessions(folder: Path) -> list[Conversation]:
    """All conversations that have a turn, the latest first."""
    found = []
    for path in folder.glob(f"*{ENDING}") if folder.is_dir() else ():
        try:
            changed = path.stat().st_mtime
            conversation = read(path)
        except (OSError, RacerError):
            continue  # it went away, or is another's: the list shows what can be resumed
        if conversation.turns:
            found.append((changed, conversation.id, conversation))
    return [conversation for *_, conversation in sorted(found, key=lambda item: item[:2], reverse=True)]


def lines() -> list[str]:
    """The user's conversations for the command line: name and title, the latest first."""
    return [f"{c.id:44} {neutral(c.name)}" for c in list_sessions(locations.sessions_dir())]


def search(folder: Path, words: str) -> list[tuple[Conversation, str]]:
    """Conversations in which all words occur somewhere, with the line around the first of them; the latest first."""
    wanted = words.casefold().split()
    found = []
    for conversation in list_sessions(folder):
        texts = [conversation.title, *(t for turn in conversation.turns for t in (turn.user, turn.answer or ""))]
        everything = "\n".join(texts)
        folded = everything.casefold()
        if wanted and all(word in folded for word in wanted):
            at = len(everything[: folded.index(wanted[0])])
            start = everything.rfind("\n", 0, at) + 1
            found.append((conversation, one_line(everything[max(start, at - 30) :], TITLE_LENGTH)))
    return found


def delete(folder: Path, identity: str) -> None:
    """Remove a session's file.

    Raises:
        RacerError: There is none of this name, or it cannot be removed.
    """
    try:
        (folder / (identity + ENDING)).unlink()
    except FileNotFoundError as error:
        raise RacerError(f"there is no session {identity!r}") from error
    except OSError as error:
        raise RacerError(f"cannot delete {identity}: {error.strerror}") from error
