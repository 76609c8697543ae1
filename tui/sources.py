"""How text within a line looks."""

from racer_local.tokens import LOOKS

STYLES = {
    look.label: f"$text-{look.colour} {look.attributes}" if look.colour else "$foreground" for look in LOOKS.values()
}
"""Of a token by its source. Each has an attribute of its own besides the colour, for screens without."""
FILLS = {look.label: look.fill for look in LOOKS.values()}
"""What a source's part of a bar is made of."""
MUTED = "$foreground-muted"
"""Of what matters less. (`$text-muted` is white wherever it is not on a widget of its own.)"""
