"""What the panels beside the conversation have in common: where they are, and that they draw only while shown."""

from textual.containers import Vertical, VerticalScroll

from .single_layout import SingleLayout


class PanelScroll(VerticalScroll, SingleLayout, can_focus=False):
    """The part of a panel that scrolls."""


class Panel(Vertical):
    """A panel, hidden at first: below the conversation, or beside it on wide screens."""

    SCOPED_CSS = False  # the scope would keep the rule for wide screens from ever matching
    DEFAULT_CSS = """
    Panel { height: 50%; border-top: solid $panel; padding: 0 1; display: none; }
    Screen.-wide Panel { width: 48; height: 1fr; border-top: none; border-left: solid $panel; }
    """

    def toggle(self) -> None:
        """Show or hide the panel."""
        self.display = not self.display
        self.draw()

    def draw(self) -> None:
        """Draw what there is, where the panel is shown."""
        raise NotImplementedError
