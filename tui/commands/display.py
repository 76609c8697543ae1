"""Commands over what is on the screen."""

from textual.widget import Widget

from racer_local.errors import ExitCode

from .context import Context
from .registry import COMMANDS, command

TWO_PANELS = 150
"""Columns from which on both panels may be open."""
KEYS = """Enter sends · Ctrl+J or Alt+Enter makes a new line · Tab completes a command · Up and Down bring back messages
Esc stops · Ctrl+C stops, twice leaves · Ctrl+Q leaves · Ctrl+R earlier conversations · Ctrl+P all commands
F2 token colours · F3 draft tree · F4 statistics · F5 drafting off and on · Ctrl+T thoughts · Page Up and Down scroll
A message that begins with a slash is sent with two."""


@command("stats", "", "show or hide the statistics", any_time=True)
async def stats(context: Context, _argument: str) -> None:
    """Show or hide the statistics."""
    context.views.stats_panel.toggle()
    _make_room(context, context.views.tree_panel, context.views.stats_panel)


@command("tree", "", "show or hide the last draft as a tree", any_time=True)
async def tree(context: Context, _argument: str) -> None:
    """Show or hide the draft tree."""
    context.views.tree_panel.toggle()
    _make_room(context, context.views.stats_panel, context.views.tree_panel)


@command("tokens", "", "colour tokens by where they came from, or not", any_time=True)
async def tokens(context: Context, _argument: str) -> None:
    """Colour tokens or not."""
    context.views.transcript.toggle_tokens()


@command("think", "", "show or hide what the model thought before it answered", any_time=True)
async def think(context: Context, _argument: str) -> None:
    """Fold or unfold thoughts."""
    context.views.transcript.toggle_thoughts()


@command("help", "", "list the commands and keys", any_time=True)
async def show_help(context: Context, _argument: str) -> None:
    """List commands and keys."""
    width = max(len(c.usage) for c in COMMANDS.values())
    lines = [f"{c.usage:{width}}  {c.help}" for c in COMMANDS.values()]
    await context.views.transcript.info("\n".join([*lines, "", KEYS]))


@command("quit", "", "leave", any_time=True)
async def leave(context: Context, _argument: str) -> None:
    """Leave."""
    context.controller.keep_unsent()
    context.host.leave(ExitCode.DONE)


def _make_room(context: Context, other: Widget, shown: Widget) -> None:
    """Hide the other panel where the screen is too narrow for both beside the conversation."""
    if shown.display and other.display and context.host.n_columns < TWO_PANELS:
        other.display = False
