"""Text that changes all the time: the screen is laid out anew only where it needs more room."""

from textual.content import Content
from textual.widgets import Static

from .single_layout import SingleLayout


class SteadyText(Static, SingleLayout):
    """A text whose height grows and does not shrink until it is asked to."""

    def set(self, content: Content, *, shrink: bool = False) -> None:
        """Show another text.

        Args:
            content: The text.
            shrink: Whether to give back room that it does not need.
        """
        width, height = self.content_size
        needed = content.get_height({}, width) if width else 0
        self.update(content, layout=needed > height or shrink or not width)
