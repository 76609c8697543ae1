"""Commands that change or compare how answers are made."""

from collections.abc import Callable

from racer_local.errors import UsageError

from .events import Change, Compared, Opener
from .receiving import Receiving


class Tuning(Receiving):
    """Commands `/set`, `/draft`, `/model`, `/compare`.

    Attributes:
        open_model: Makes a function that loads a model from its name; None where the model cannot be changed.
    """

    open_model: Callable[[str], Opener] | None

    async def do_set(self, argument: str) -> None:
        """Show or change how tokens are picked."""
        name, _, value = argument.partition(" ")
        if not name:
            lines = [f"{name} {'none' if value is None else value}" for name, value in self.chat.settings().items()]
            await self.transcript.info("\n".join(lines))
        elif not value.strip():
            raise UsageError("give a name and a value: /set NAME VALUE")
        else:
            self.notice(self.chat.set(name, value.strip()))

    async def do_draft(self, argument: str) -> None:
        """Show or change how drafts are made; off and on also work in the middle of an answer."""
        if argument in ("on", "off") and self.answer is not None and self.racer is not None:
            self.racer.drafts_wanted = argument == "on"
            self.notice(f"drafting is {argument}")
        elif argument:
            if self.answer is not None:
                raise UsageError("in the middle of an answer drafting can be switched on or off only")
            self.notice(self.chat.set_draft(argument))
            if self.racer is not None:
                self.racer.drafts_wanted = True
        if self.racer is not None:
            self.show_drafting()
            if not argument:
                drafting = self.racer.drafting(self.chat.draft)
                await self.transcript.info(", ".join(f"{name} {value}" for name, value in drafting.items()))

    async def do_model(self, argument: str) -> None:
        """Show or change the model."""
        if not argument:
            if self.racer is not None:
                await self.transcript.info(f"{self.racer.model.description} on {self.racer.model.device}")
            return
        if self.open_model is None:
            raise UsageError("a recorded run is of one model")
        opener = self.open_model(argument)
        self.racer = None
        self.prompt.ready = False
        self.status.change(model="", title=argument, progress=0.0)
        self.engine.ask(Change(opener))

    async def do_compare(self, _argument: str) -> None:
        """Answer once more without drafts."""
        if self.suggest is not None:
            raise UsageError("a recorded run has no model to compare with")
        job = self.chat.compare()
        self.comparing = True
        self.prompt.ready = False
        self.engine.ask(job)
        self.notice("answering once more with drafting off; Esc stops")

    async def show_comparison(self, event: Compared) -> None:
        """Say what a comparison has found."""
        self.comparing = False
        self.prompt.ready = True
        self.notice()
        if not event.complete:
            await self.transcript.info("the comparison was stopped")
            return
        drafted, plain = self.chat.speed, event.stats.predicted_per_second
        lines = [f"with drafting {_speed(drafted)}, without {_speed(plain)}"]
        if drafted and plain:
            lines[0] += f": {drafted / plain:.2f}×"
        if event.position is None:
            lines.append(f"same text ({event.stats.predicted_n} tokens)")
        else:
            a, b = (repr(text) if text else "the end" for text in event.pair)
            lines.append(
                f"the texts part at token {event.position + 1}: {a} with drafting, {b} without; "
                f"their logits in a plain decode are {event.gap:.2f} apart"
            )
        await self.transcript.info("\n".join(lines))


def _speed(per_second: float | None) -> str:
    return "—" if per_second is None else f"{per_second:.1f} tokens/s"
