"""Commands over conversations: beginning, finding, naming, deleting them, and what stands above them."""

from collections.abc import Sequence
from pathlib import Path

from racer_local.errors import UsageError

from .. import session, session_folder
from ..session import Session
from .context import Context
from .registry import command


def _names(context: Context, begun: str) -> Sequence[str]:
    return [name for name in session_folder.names(context.folder) if name.startswith(begun)]


@command("new", "", "begin a new conversation; this one is kept")
async def new(context: Context, _argument: str) -> None:
    """Begin a new conversation."""
    before = context.chat.session.conversation
    await context.controller.hold(Session.begin(context.folder, before.model, before.system))
    context.host.notice("a new conversation; Ctrl+R goes back to earlier ones")


@command("clear", "", "forget what was said here and stay in this conversation")
async def clear(context: Context, _argument: str) -> None:
    """Forget what was said."""
    context.chat.clear()
    await context.controller.show_conversation()


@command("load", "[NAME]", "go on with an earlier conversation; without a name choose from a list", choices=_names)
async def load(context: Context, argument: str) -> None:
    """Go on with an earlier conversation."""
    if argument:
        await context.controller.resume(_plain_name(argument))
    else:
        _choose(context, "")


@command("search", "WORDS", "find conversations in which all words occur")
async def search(context: Context, argument: str) -> None:
    """Find earlier conversations."""
    _choose(context, argument)


@command("save", "TITLE", "give this conversation a title", any_time=True)
async def save(context: Context, argument: str) -> None:
    """Give the conversation a title."""
    if not argument:
        raise UsageError("give a title: /save TITLE; everything said is kept in any case")
    context.chat.session.rename(argument)
    context.host.notice(f"this conversation is called {context.chat.session.conversation.title!r}")


@command("delete", "[NAME]", "delete a conversation, this one without a name", choices=_names)
async def delete(context: Context, argument: str) -> None:
    """Delete a conversation."""
    context.controller.keep_unsent()
    own = context.chat.session.conversation
    name = _plain_name(argument) if argument else own.id
    if not name:
        raise UsageError("there is nothing to delete yet")
    if name == own.id:
        context.chat.session.close()
        session.delete(context.folder, name)
        await context.controller.hold(Session.begin(context.folder, own.model, own.system))
    else:
        session.delete(context.folder, name)
    context.host.notice(f"{name} is deleted")


@command("system", "[TEXT]", "show or change the system prompt; '-' removes it")
async def system(context: Context, argument: str) -> None:
    """Show or change the system prompt."""
    if argument:
        context.chat.session.set_system("" if argument == "-" else argument)
    text = context.chat.session.conversation.system
    await context.views.transcript.info(f"system prompt: {text}" if text else "no system prompt")


def _choose(context: Context, words: str) -> None:
    context.controller.keep_unsent()
    context.host.choose_session(context.index.find, words)


def _plain_name(text: str) -> str:
    """A session's name as it was typed; a path is none.

    Raises:
        UsageError: It is a path.
    """
    if Path(text).name != text:
        raise UsageError(f"{text!r} is no name of a conversation")
    return text
