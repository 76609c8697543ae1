"""Which options go together: one that would have no effect is refused, so that nobody believes that it has one."""

import argparse
from collections.abc import Collection

from racer_local.cli.parser import given
from racer_local.drafting.policies import DEFAULT_POLICY, POLICIES
from racer_local.errors import UsageError

FOR_AN_ANSWER = ("prompt", "json", "jsonl", "show_thoughts")
"""Options that tell that one answer is wanted, though its prompt may come on stdin."""
INFORMATION = ("paths", "sessions", "list_models")
LOADING = frozenset({"model", "n_ctx", "n_gpu_layers", "n_threads", "flash_attn", "chat_template", "template_args"})
DRAFTING = frozenset({"draft", "draft_budget", "draft_temp", "chain"})
EVERYWHERE = frozenset({"verbose"})

TAKEN = {
    **dict.fromkeys(INFORMATION, EVERYWHERE),
    "doctor": EVERYWHERE | LOADING | DRAFTING | {"json"},
    "replay": EVERYWHERE | {"speed"},
}
"""What else may be given, by the option that says what is done."""
NOT_TAKEN = {
    "chat": frozenset({"speed", "json", "jsonl", "raw", "no_stdin"}),
    "answer": frozenset({"speed", "resume"}),
    "raw": frozenset({"speed", "resume", "system", "chat_template", "template_args", "record", "show_thoughts"}),
}
"""What has no effect on the chat, on one answer, and on one without a template; all else has."""
REASON = {
    ("answer", "resume"): "conversations go on in the chat: leave out the prompt, or --resume",
    ("raw", "record"): "a recording is of a chat",
    ("raw", "system"): "there is no chat template that it could stand in",
    ("raw", "chat_template"): "there is no chat template",
    ("raw", "template_args"): "there is no chat template",
    ("raw", "show_thoughts"): "nothing is told apart",
    ("chat", "speed"): "it is of --replay",
    ("answer", "speed"): "it is of --replay",
    ("raw", "speed"): "it is of --replay",
}


def purpose(args: argparse.Namespace) -> str:
    """What is to be done, as far as the options tell: a prompt may come on stdin as well."""
    for name in TAKEN:
        if given(args, name):
            return name
    if given(args, "raw"):
        return "raw"
    return "answer" if any(given(args, name) is not None for name in FOR_AN_ANSWER) else "chat"


def check(args: argparse.Namespace, named: Collection[str], doing: str) -> None:
    """See that everything on the command line has an effect.

    Args:
        args: All options, those of config.toml and the environment included.
        named: Those of the command line.
        doing: One of `TAKEN` or `NOT_TAKEN`.

    Raises:
        UsageError: Something has none, or two options exclude each other.
    """
    if "json" in named and "jsonl" in named:
        raise UsageError("--json and --jsonl exclude each other")
    if "show_thoughts" in named and (given(args, "json") or given(args, "jsonl")):
        raise UsageError("--show-thoughts has no effect with JSON, which has thoughts in a field of their own")
    if "no_stdin" in named and given(args, "prompt") == "-":
        raise UsageError("-p - reads stdin, which --no-stdin leaves alone")
    for name in named:
        if name != doing and (name not in TAKEN[doing] if doing in TAKEN else name in NOT_TAKEN[doing]):
            raise UsageError(_no_effect(doing, name))
    draft = given(args, "draft") or DEFAULT_POLICY
    policy = POLICIES.get(draft, POLICIES[DEFAULT_POLICY])
    without = DRAFTING - {"draft"} if not policy.drafts else set[str]() if policy.weighs_costs else {"draft_temp"}
    for name in sorted(without & set(named)):
        raise UsageError(f"{option(name)} has no effect with --draft {draft}")


def drop_unused(args: argparse.Namespace, named: Collection[str], doing: str) -> None:
    """Forget what config.toml and the environment say that has no effect here: they speak of other calls too."""
    for name in NOT_TAKEN.get(doing, ()):
        if name not in named and name in vars(args) and name != doing:
            delattr(args, name)


def option(name: str) -> str:
    """An option as it is typed."""
    short = {
        "template_args": "template-arg",
        "n_ctx": "ctx-size",
        "n_gpu_layers": "gpu-layers",
        "n_threads": "threads",
        "temperature": "temp",
    }
    return "MODEL" if name == "model" else f"--{short.get(name, name.replace('_', '-'))}"


def _no_effect(doing: str, name: str) -> str:
    call = {"chat": "the chat", "answer": "one answer"}.get(doing, option(doing))
    reason = REASON.get((doing, name), "leave it out")
    return f"{option(name)} has no effect with {call}: {reason}"
