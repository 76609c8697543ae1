"""What the slash commands and a sent message do, for the application that holds widgets, conversation and thread."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on
from textual.widget import Widget

from racer_local import registry
from racer_local.errors import RacerError, UsageError
from racer_local.settings import POLICIES
from racer_local.terminal_text import one_line

from . import archive, commands
from .carrying import Carrying
from .chat import SETTABLE
from .sessions import Conversation, Session
from .widgets.prompt import Prompt
from .widgets.session_list import SessionList

SHOWN_TURNS = 40
"""Turns of an earlier conversation that are drawn again; the model reads all that fit."""
TWO_PANELS = 150
"""Columns from which on both panels may be open."""
MANY = 12
"""Entries of a list that the hint line shows."""


class Doing(Carrying):
    """Sent messages, and commands by name: each is a method `do_...` that takes what follows the command."""

    if TYPE_CHECKING:

        def action_leave(self) -> None:
            """Leave."""

    @on(Prompt.Submitted)
    async def _sent(self, event: Prompt.Submitted) -> None:
        """A message goes to the model, a command is carried out; what cannot be done leaves the text in the input."""
        try:
            parsed = commands.parse(event.text)
            if parsed is None:
                message = commands.message_of(event.text)
                answer = await self.transcript.begin(message)
                self.begin(self.chat.ask(message), answer)
            else:
                await self._carry_out(*parsed)
        except RacerError as error:
            self.prompt.put_back(event.text)
            self.prompt.ready = not self.is_busy
            self.notice(one_line(str(error)))

    async def action_do(self, name: str) -> None:
        """Carry out a command without an argument, by a key or from the palette."""
        try:
            await self._carry_out(commands.BY_NAME[name], "")
        except RacerError as error:
            self.notice(one_line(str(error)))

    async def _carry_out(self, command: commands.Command, argument: str) -> None:
        if self.is_busy and not command.busy:
            raise UsageError(f"/{command.name} has to wait until the answer is done; Esc stops it")
        await getattr(self, f"do_{command.name}")(argument)

    @on(Prompt.Completing)
    def _complete(self, event: Prompt.Completing) -> None:
        lines = commands.complete(event.text, self._choices())
        longer = commands.common_beginning(lines)
        if len(longer) > len(event.text):
            self.prompt.put(longer)
        names = [line.partition(" ")[2] or line.strip() for line in lines]
        more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
        self.notice(" ".join(names[:MANY]) + more if len(names) > 1 else "")

    def _choices(self) -> dict[str, Callable[[str], Sequence[str]]]:
        def among(names: Sequence[str]) -> Callable[[str], Sequence[str]]:
            return lambda begun: [name for name in names if name.startswith(begun)]

        def files(begun: str) -> Sequence[str]:
            head, _, tail = begun.rpartition("/")
            folder = Path(head or ("/" if begun.startswith("/") else ".")).expanduser()
            found = sorted(folder.glob(f"{tail}*")) if folder.is_dir() and "*" not in tail else []
            lead = f"{head}/" if "/" in begun else ""
            return [f"{lead}{path.name}{'/' if path.is_dir() else ''}" for path in found[:100]]

        def models(begun: str) -> Sequence[str]:
            return [*among(sorted(registry.entries()))(begun), *files(begun)]

        return {
            "settings": among(SETTABLE),
            "draft": among(("on", *POLICIES)),
            "export": among(("md", "json")),
            "sessions": lambda begun: among([c.id for c in archive.list_sessions(self.folder)])(begun),
            "models": models,
            "files": files,
        }

    @property
    def folder(self) -> Path:
        """Where the conversations are."""
        return self.chat.session.folder

    # the conversation

    async def do_new(self, _argument: str) -> None:
        """Begin a new conversation."""
        before = self.chat.session.conversation
        await self._hold(Session.begin(self.folder, before.model, before.system))
        self.notice("a new conversation; Ctrl+R goes back to earlier ones")

    async def do_clear(self, _argument: str) -> None:
        """Forget what was said."""
        self.chat.clear()
        await self.show_conversation()

    async def do_regen(self, _argument: str) -> None:
        """Answer once more."""
        ask = self.chat.again()
        answer = await self.transcript.replace_last()
        self.begin(ask, answer)

    async def do_continue(self, _argument: str) -> None:
        """Go on with the answer."""
        ask = self.chat.go_on()
        answer = await self.transcript.replace_last()
        answer.begin(self.chat.turns[-1].splitter())
        answer.resume(self.chat.turns[-1].answer or "", self.chat.tokens)
        self.begin(ask, answer)

    async def do_undo(self, _argument: str) -> None:
        """Take the last turn back."""
        self.chat.undo()
        await self.transcript.take_back()

    async def do_edit(self, _argument: str) -> None:
        """Take the last message back into the input."""
        text = self.chat.undo()
        await self.transcript.take_back()
        self.prompt.put(text)

    async def do_system(self, argument: str) -> None:
        """Show or change the system prompt."""
        if argument:
            if self.is_busy:
                raise UsageError("the system prompt can be changed once the answer is done")
            self.chat.session.set_system("" if argument == "-" else argument)
        system = self.chat.session.conversation.system
        await self.transcript.info(f"system prompt: {system}" if system else "no system prompt")

    async def do_load(self, argument: str) -> None:
        """Go on with an earlier conversation."""
        if argument:
            await self._hold(Session.resume(self.folder, _plain_name(argument)))
        else:
            self._choose("")

    async def do_search(self, argument: str) -> None:
        """Find earlier conversations."""
        self._choose(argument)

    async def do_save(self, argument: str) -> None:
        """Give the conversation a title."""
        if not argument:
            raise UsageError("give a title: /save TITLE; everything said is kept in any case")
        self.chat.session.rename(argument)
        self.notice(f"this conversation is called {self.chat.session.conversation.title!r}")

    async def do_delete(self, argument: str) -> None:
        """Delete a conversation."""
        own = self.chat.session.conversation
        name = _plain_name(argument) if argument else own.id
        if not name:
            raise UsageError("there is nothing to delete yet")
        if name == own.id:
            self.chat.session.close()
            archive.delete(self.folder, name)
            await self._hold(Session.begin(self.folder, own.model, own.system))
        else:
            archive.delete(self.folder, name)
        self.notice(f"{name} is deleted")

    def _choose(self, words: str) -> None:
        def find(text: str) -> Sequence[tuple[Conversation, str]]:
            if text.strip():
                return archive.search(self.folder, text)
            return [(c, one_line(c.turns[-1].user)) for c in archive.list_sessions(self.folder)]

        def chosen(identity: str | None) -> None:
            if identity is not None:
                self.run_worker(self._hold(Session.resume(self.folder, identity)))

        self.push_screen(SessionList(find, words), chosen)

    async def _hold(self, session: Session) -> None:
        """Hold another conversation; an answer in progress ends in the one that it belongs to."""
        if self.is_busy and self.racer is not None:
            raise UsageError("the answer in progress comes first; Esc stops it")
        self.chat.session.unsent(self.prompt.text)
        self.chat.session.close()
        self.chat.hold(session)
        self.prompt.put(session.conversation.unsent)
        await self.show_conversation()

    async def show_conversation(self) -> None:
        """Draw the whole conversation anew."""
        turns = self.chat.turns
        await self.transcript.empty()
        if len(turns) > SHOWN_TURNS:
            await self.transcript.info(f"{len(turns) - SHOWN_TURNS} earlier turns are not shown; the model reads them")
        for turn in turns[-SHOWN_TURNS:]:
            answer = await self.transcript.begin(turn.user)
            if turn.answer is not None:
                answer.begin(turn.splitter())
                answer.put(turn.answer, "" if turn.reason else "cut off; /continue goes on")
        for turn in turns:
            self.prompt.remember(turn.user)

    # the screen

    async def do_help(self, _argument: str) -> None:
        """List commands and keys."""
        width = max(len(commands.usage(c)) for c in commands.COMMANDS)
        lines = [f"{commands.usage(c):{width}}  {c.help}" for c in commands.COMMANDS]
        await self.transcript.info("\n".join([*lines, "", KEYS]))

    async def do_tokens(self, _argument: str) -> None:
        """Colour tokens or not."""
        self.transcript.toggle_tokens()

    async def do_tree(self, _argument: str) -> None:
        """Show or hide the draft tree."""
        self.tree_panel.toggle()
        self._make_room(self.stats_panel, self.tree_panel)

    async def do_stats(self, _argument: str) -> None:
        """Show or hide the statistics."""
        self.stats_panel.toggle()
        self._make_room(self.tree_panel, self.stats_panel)

    def _make_room(self, other: Widget, shown: Widget) -> None:
        """Hide the other panel where the screen is too narrow for both beside the conversation."""
        if shown.display and other.display and self.size.width < TWO_PANELS:
            other.display = False

    async def do_think(self, _argument: str) -> None:
        """Fold or unfold thoughts."""
        self.transcript.toggle_thoughts()

    async def do_quit(self, _argument: str) -> None:
        """Leave."""
        self.action_leave()


KEYS = """Enter sends · Ctrl+J or Alt+Enter makes a new line · Tab completes a command · Up and Down bring back messages
Esc stops · Ctrl+C stops, twice leaves · Ctrl+Q leaves · Ctrl+R earlier conversations · Ctrl+P all commands
F2 token colours · F3 draft tree · F4 statistics · F5 drafting off and on · Ctrl+T thoughts · Page Up and Down scroll
A message that begins with a slash is sent with two."""


def _plain_name(text: str) -> str:
    """A session's name as it was typed; a path is none.

    Raises:
        UsageError: It is a path.
    """
    if Path(text).name != text:
        raise UsageError(f"{text!r} is no name of a conversation")
    return text
