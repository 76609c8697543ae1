"""The slash commands. Importing this package registers all of them, in the order in which `/help` lists them."""

from . import conversations, answers, settings, files, display  # noqa: F401, I001 (the order of the list)
