"""Commands that change how answers are made."""

from collections.abc import Sequence

from racer_local import registry as model_names
from racer_local.drafting.policies import POLICIES
from racer_local.errors import UsageError

from ..chat import SETTABLE
from ..text_files import path_of
from .context import Context
from .files import file_choices
from .registry import among, command


@command("set", "[NAME VALUE]", "show or change how tokens are picked, and their bound", choices=among(SETTABLE))
async def set_value(context: Context, argument: str) -> None:
    """Show or change how tokens are picked."""
    name, _, value = argument.partition(" ")
    if not name:
        lines = [f"{name} {'none' if value is None else value}" for name, value in context.chat.settings().items()]
        await context.views.transcript.info("\n".join(lines))
    elif not value.strip():
        raise UsageError("give a name and a value: /set NAME VALUE")
    else:
        context.host.notice(context.chat.set(name, value.strip()))


@command(
    "draft",
    "[on|off|auto|N]",
    "how drafts are made; N is a fixed budget",
    choices=among(("on", *POLICIES)),
    any_time=True,
)
async def draft(context: Context, argument: str) -> None:
    """Show or change how drafts are made; off and on also work in the middle of an answer."""
    controller = context.controller
    if argument and controller.phase.can_be_stopped:
        if argument not in ("on", "off"):
            raise UsageError("in the middle of an answer drafting can be switched on or off only")
        controller.switch_drafts(argument == "on")
        context.host.notice(f"drafting is {argument}")
    elif argument:
        context.host.notice(context.chat.set_draft(argument))
        controller.switch_drafts(True)
    elif controller.racer is not None:
        drafting = controller.racer.drafting(context.chat.draft)
        await context.views.transcript.info(", ".join(f"{name} {value}" for name, value in drafting.items()))


def _models(context: Context, begun: str) -> Sequence[str]:
    names = [name for name in sorted(model_names.entries()) if name.startswith(begun)]
    return [*names, *file_choices(context, begun)]


@command("model", "[NAME|FILE]", "show or change the model", choices=_models)
async def model(context: Context, argument: str) -> None:
    """Show or change the model."""
    controller = context.controller
    if argument:
        if context.open_model is None:
            raise UsageError("a recorded run is of one model")
        name = argument if argument in model_names.entries() else str(path_of(argument))
        controller.change_model(context.open_model(name), name)
    elif controller.racer is not None:
        await context.views.transcript.info(f"{controller.racer.model.description} on {controller.racer.model.device}")
