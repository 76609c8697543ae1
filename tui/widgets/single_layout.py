"""Widgets whose new size is no reason to lay out the screen once more."""

from textual.geometry import Size
from textual.reactive import Reactive
from textual.widget import Widget


class SingleLayout(Widget):
    """Textual lays the screen out a second time after a widget has got another size; what follows from it is known."""

    virtual_size: Reactive[Size] = Reactive(Size(0, 0), layout=False)
