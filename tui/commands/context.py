"""What a slash command is given."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..chat import Chat
from ..controller import Controller
from ..events import Opener
from ..session_folder import SessionIndex
from ..views import Host, Views


@dataclass(frozen=True, slots=True)
class Context:
    """The chat as commands see it.

    Attributes:
        controller: Its course.
        views: The widgets.
        host: The application.
        open_model: Makes a function that loads a model from its name or path; None where the model cannot be changed.
        index: What is known of earlier conversations.
    """

    controller: Controller
    views: Views
    host: Host
    open_model: Callable[[str], Opener] | None
    index: SessionIndex

    @property
    def chat(self) -> Chat:
        """The conversation."""
        return self.controller.chat

    @property
    def folder(self) -> Path:
        """Where the conversations are."""
        return self.chat.session.folder
