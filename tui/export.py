"""A conversation as a document: Markdown for people, JSON for programs."""

from typing import Any

from .conversation import Conversation


def as_markdown(conversation: Conversation) -> str:
    """The conversation as Markdown; what the model wrote stands as it is."""
    parts = [f"# {conversation.name}", f"*{conversation.model}, {conversation.created[:16].replace('T', ' ')}*"]
    if conversation.system:
        parts.append(f"## System\n\n{conversation.system}")
    for turn in conversation.turns:
        parts.append(f"## You\n\n{turn.user}")
        if turn.answer is not None:
            parts.append(f"## Answer\n\n{turn.answer.strip()}")
    return "\n\n".join(parts)


def as_json(conversation: Conversation) -> dict[str, Any]:
    """The conversation with messages in OpenAI's shape."""
    return {
        "title": conversation.name,
        "created": conversation.created,
        "model": conversation.model,
        "messages": conversation.messages(),
    }
