"""The one way from the command lines to the terminal chat."""

from racer_local.terminal import Terminal


def terminal() -> Terminal:
    """The chat; Textual is loaded once it has something to draw."""
    # installed from the folder `tui`, so pyright looks for it in vain here; there it checks that this is a Terminal
    from racer_local.tui.door import Door  # pyright: ignore[reportMissingImports]

    return Door()
