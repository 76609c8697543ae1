"""A conversation as a document: Markdown for people, JSON for programs."""

from typing import Any

from .conversation import Conversation


def as_markdown(conversation: Conversation) -> str:
    """The conversation as Markdown; what the model said stands as it is, what it thought is left out."""
    parts = [f"# {conversation.name}", f"*{conversation.model}, {conversation.created[:16].replace('T', ' ')}*"]
    if conversation.system:
        parts.append(f"## System\n\n{conversation.system}")
    for turn in conversation.turns:
        parts.append(f"## You\n\n{turn.user}")
        if turn.answer is not None:
            parts.append(f"## Answer\n\n{turn.split()[1].strip()}")
    return "\n\n".join(parts)


def as_json(conversation: Conversation) -> dict[str, Any]:
    """The conversation with messages in OpenAI's shape; thoughts are `reasoning_content`."""
    messages = [{"role": "system", "content": conversation.system}] if conversation.system else []
    for turn in conversation.turns:
        messages.append({"role": "user", "content": turn.user})
        if turn.answer is not None:
            thought, said = turn.split()
            reasoning = {"reasoning_content": thought.strip()} if thought.strip() else {}
            messages.append({"role": "assistant", "content": said.strip() if reasoning else said, **reasoning})
    return {
        "title": conversation.name,
        "created": conversation.created,
        "model": conversation.model,
        "messages": messages,
    }
