"""How the source of a token looks. Each has an attribute of its own besides the colour, for screens without."""

STYLES = {
    "model": "$foreground",
    "retrieval": "$text-success underline",
    "logits": "$text-warning italic",
    "both": "$text-primary bold",
    "corpus": "$text-secondary bold underline",
}
