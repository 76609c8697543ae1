"""How text within a line looks."""

STYLES = {
    "model": "$foreground",
    "retrieval": "$text-success underline",
    "logits": "$text-warning italic",
    "both": "$text-primary bold",
    "corpus": "$text-secondary bold underline",
}
"""Of a token by its source. Each has an attribute of its own besides the colour, for screens without."""
MUTED = "$foreground-muted"
"""Of what matters less. (`$text-muted` is white wherever it is not on a widget of its own.)"""
