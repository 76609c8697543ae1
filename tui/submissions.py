"""The one gate of the chat: what is sent, pressed or chosen passes here, and is done now or refused with a reason."""

from racer_local.errors import RacerError, UsageError
from racer_local.terminal_text import one_line

from . import commands  # noqa: F401 (registers the commands)
from .commands.context import Context
from .commands.registry import COMMANDS, Command, common_beginning, complete, message_of, parse
from .phase import Phase

MANY = 12
"""Entries of a list that the hint line shows."""


class Submissions:
    """Carries out messages and commands, in the phases in which they may be."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def refusal(self, text: str) -> str:
        """Why a text cannot be sent now, empty if it can; asked before it leaves the input."""
        try:
            self._check(parse(_last_part(text)[1]))
        except UsageError as error:
            return one_line(str(error))
        return ""

    async def send(self, text: str) -> None:
        """Do what a text that has left the input says; what cannot be done goes back into the input."""
        context = self._context
        above, last = _last_part(text)
        try:
            parsed = parse(last)
            self._check(parsed)
            if above:
                context.views.prompt.put(above)
            if parsed is None:
                message = message_of(text)
                answer = await context.views.transcript.begin(message)
                context.controller.begin(context.chat.ask(message), answer)
            else:
                await parsed[0].run(context, parsed[1])
        except RacerError as error:
            if above:
                context.views.prompt.clear()
            context.views.prompt.put_back(text)
            context.host.notice(one_line(str(error)))

    async def do(self, name: str) -> None:
        """Carry out a command without an argument, by a key or from the palette."""
        try:
            self._check((COMMANDS[name], ""))
            await COMMANDS[name].run(self._context, "")
        except RacerError as error:
            self._context.host.notice(one_line(str(error)))

    def complete(self, text: str) -> None:
        """Complete a command in the input as far as there is one way to go on; tell the ways where there are more."""
        lines = complete(text, self._context)
        longer = common_beginning(lines)
        if len(longer) > len(text):
            self._context.views.prompt.put(longer)
        names = [line.partition(" ")[2] or line.strip() for line in lines]
        more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
        self._context.host.notice(" ".join(names[:MANY]) + more if len(names) > 1 else "")

    def _check(self, parsed: tuple[Command, str] | None) -> None:
        """Raise UsageError unless a message (None) or a command may be carried out in this phase."""
        phase = self._context.controller.phase
        if phase is Phase.IDLE:
            return
        if parsed is None:
            raise UsageError(f"{phase.value}; your text stays here until it can be sent")
        if not parsed[0].any_time:
            stop = "; Esc stops it" if phase.can_be_stopped else ""
            raise UsageError(f"/{parsed[0].name} has to wait, {phase.value}{stop}")


def _last_part(text: str) -> tuple[str, str]:
    """What stays in the input, and what is sent: the whole text, or a last line that reads one more file into it."""
    head, newline, last = text.rpartition("\n")
    return (head + newline, last) if newline and last.startswith("/read ") and not text.startswith("/") else ("", text)
