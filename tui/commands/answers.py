"""Commands over the last answer: made again, gone on with, taken back, compared."""

from racer_local.errors import UsageError

from .context import Context
from .registry import command


@command("regen", "", "answer the last message once more")
async def regen(context: Context, _argument: str) -> None:
    """Answer once more."""
    ask = context.chat.again()
    context.controller.begin(ask, await context.views.transcript.replace_last())


@command("edit", "", "take the last message back into the input")
async def edit(context: Context, _argument: str) -> None:
    """Take the last message back into the input."""
    context.views.prompt.put(await context.controller.take_back())


@command("continue", "", "go on with an answer that was stopped or cut off")
async def go_on(context: Context, _argument: str) -> None:
    """Go on with the answer."""
    chat = context.chat
    ask = chat.go_on()
    answer = await context.views.transcript.replace_last()
    answer.begin(chat.turns[-1].splitter())
    answer.resume(chat.turns[-1].answer or "", chat.tokens)
    context.controller.begin(ask, answer)


@command("undo", "", "take back the last message and its answer")
async def undo(context: Context, _argument: str) -> None:
    """Take the last turn back."""
    await context.controller.take_back()


@command("compare", "", "answer the last message with drafting off, and compare speed and text")
async def compare(context: Context, _argument: str) -> None:
    """Answer once more without drafts."""
    if context.controller.is_replay:
        raise UsageError("a recorded run has no model to compare with")
    context.controller.compare(context.chat.compare())
