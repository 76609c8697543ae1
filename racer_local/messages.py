"""Messages as OpenAI's and llama-cpp-python's users write them, checked and brought into one form."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from racer_local.errors import UsageError

ROLES = ("system", "user", "assistant", "tool")
SAME_ROLES = {"developer": "system"}
NOT_READ = {
    "image_url": "a picture",
    "input_image": "a picture",
    "image": "a picture",
    "input_audio": "audio",
    "audio": "audio",
    "video_url": "a video",
    "video": "a video",
    "file": "a file",
    "input_file": "a file",
}
"""What a part of a content may be that no text model reads."""


def checked(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """Messages with a role of `ROLES` and a content that is text.

    Raises:
        UsageError: A message is malformed, or there is none.
    """
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Iterable):
        raise UsageError("messages must be a list of messages, each with a role and a content")
    out = [_checked(message) for message in messages]
    if not out:
        raise UsageError("there is no message to answer")
    return out


def _checked(message: Any) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise UsageError("each message needs a role and a content that is text")
    role = message.get("role")
    if not isinstance(role, str) or SAME_ROLES.get(role, role) not in ROLES:
        raise UsageError(f"a message's role must be one of {', '.join((*ROLES, *SAME_ROLES))}, not {_short(role)}")
    calls = message.get("tool_calls")
    if calls is not None and not (isinstance(calls, list) and all(isinstance(call, Mapping) for call in calls)):
        raise UsageError("a message's tool_calls must be a list of calls")
    if message.get("name") is not None and not isinstance(message["name"], str):
        raise UsageError(f"a message's name must be text, not {_short(message['name'])}")
    content = message.get("content")
    if content is None and role == "assistant" and (calls or message.get("function_call")):
        content = ""
    return {**message, "role": SAME_ROLES.get(role, role), "content": _text(content)}


def _text(content: Any) -> str:
    """A content as one text, its parts a line each."""
    if isinstance(content, str):
        return content
    if isinstance(content, Sequence) and not isinstance(content, bytes) and content:
        return "\n".join(_part(part) for part in content)
    raise UsageError("each message needs a role and a content that is text")


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type", "text") if isinstance(part, Mapping) else None
    if isinstance(kind, str) and kind in NOT_READ:
        raise UsageError(f"a message holds {NOT_READ[kind]} ({kind}), which cannot be read here; send text alone")
    if kind not in ("text", "input_text", "output_text") or not isinstance(part.get("text", 0), str):
        raise UsageError(f'a part of a content must be {{"type": "text", "text": "..."}}, not {_short(part)}')
    return part["text"]


def _short(value: Any) -> str:
    return " ".join(repr(value).split())[:60]
