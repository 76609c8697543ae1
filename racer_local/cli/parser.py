"""The options of racer-chat, and what can be checked of them before a model is loaded."""

import argparse
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from racer_local.cli.command import Parser
from racer_local.drafting.policies import POLICIES, DraftConfig
from racer_local.errors import UsageError
from racer_local.settings import MAX_BUDGET, ModelParams, SamplingParams

FILLED_IN = (
    *("system", "max-tokens", "temp", "top-k", "top-p", "min-p", "repeat-penalty", "seed", "stop"),
    *("ctx-size", "gpu-layers", "threads", "flash-attn", "raw", "chat-template"),
    *("draft", "draft-budget", "draft-temp", "chain"),
)
"""Options that the environment and config.toml may give."""


def build_parser() -> Parser:
    """All options of racer-chat; defaults left out here are those of `settings`."""
    parser = Parser(
        prog="racer-chat",
        description="Chat with a GGUF model in the terminal, or answer one prompt. Drafts make it faster; "
        "the model still decides every token.",
        epilog="Exit codes: 0 done, 1 failed, 2 usage, 3 model cannot be loaded, 4 context full, 130 interrupted.",
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )

    def add(to: Any, *names: str, **settings: Any) -> None:
        """To the parser or to a group of it, whose class has no public name."""
        action = to.add_argument(*names, **settings)
        parser.options |= {name: action for name in names if name.startswith("--")}

    add(parser, "model", nargs="?", help="path of a .gguf file, or a name of --list-models (default: demo)")
    add(parser, "-p", "--prompt", metavar="TEXT", help="answer TEXT and leave; '-' reads it from stdin")
    add(parser, "--no-stdin", action="store_true", help="leave stdin alone, in the loop of a script say")
    add(parser, "-s", "--system", metavar="TEXT", help="system prompt")
    add(parser, "-n", "--max-tokens", type=int, metavar="N", help="end the answer after N tokens")

    add(
        parser,
        "--resume",
        nargs="?",
        const="",
        metavar="NAME",
        help="go on with an earlier conversation, the last one if none is named",
    )
    add(parser, "--sessions", action="store_true", help="list the conversations that --resume knows")

    group = parser.add_argument_group("sampling")
    add(group, "--temp", dest="temperature", type=float, metavar="T", help="temperature; 0 is greedy")
    add(group, "--top-k", type=int, metavar="K")
    add(group, "--top-p", type=float, metavar="P")
    add(group, "--min-p", type=float, metavar="P")
    add(group, "--repeat-penalty", type=float, metavar="X")
    add(group, "--seed", type=int, metavar="N")
    add(group, "--stop", action="append", metavar="TEXT", help="end the answer before TEXT (repeatable)")

    group = parser.add_argument_group("model")
    add(group, "-c", "--ctx-size", dest="n_ctx", type=int, metavar="N", help="context in tokens")
    add(group, "-ngl", "--gpu-layers", dest="n_gpu_layers", type=int, metavar="N", help="-1: all (default)")
    add(group, "-t", "--threads", dest="n_threads", type=int, metavar="N")
    add(group, "-fa", "--flash-attn", choices=("auto", "on", "off"), help="auto: on for GPUs, off for CPUs")
    add(group, "--raw", action="store_true", help="complete the prompt without a chat template")
    add(group, "--chat-template", metavar="FILE", help="use this Jinja template instead of the model's own")
    add(
        group,
        "--template-arg",
        dest="template_args",
        action="append",
        metavar="NAME=VALUE",
        help="set a variable of the template, as in enable_thinking=false (JSON or text; repeatable)",
    )

    group = parser.add_argument_group("drafting")
    what = "; ".join(f"{name}: {policy.what}" for name, policy in POLICIES.items())
    add(group, "--draft", choices=POLICIES, help=f"where drafts come from. {what}")
    add(group, "--draft-budget", type=int, metavar="N", help=f"tokens in one decode, 1 to {MAX_BUDGET}")
    add(
        group, "--draft-temp", type=float, metavar="T", help="above 1 policy auto drafts wider trees, below deeper ones"
    )
    add(group, "--chain", action="store_true", help="draft one path instead of a tree")

    group = parser.add_argument_group("output")
    add(group, "--json", action="store_true", help="print one JSON object: text, usage, timings")
    add(group, "--jsonl", action="store_true", help="print a JSON line for each step, totals last")
    add(group, "--show-thoughts", action="store_true", help="print what the model thinks, with its marks, too")
    add(group, "--record", type=Path, metavar="FILE", help="write the run to FILE, a new file, for --replay")
    add(group, "--replay", type=Path, metavar="FILE", help="chat with a recorded run; no model is needed")
    add(group, "--speed", type=float, metavar="X", help="of --replay: so many times faster; 0: without waiting")
    add(group, "--doctor", action="store_true", help="report on MODEL on this machine (also as --json)")
    add(group, "--list-models", action="store_true", help="print the names that work as MODEL")
    add(group, "--paths", action="store_true", help="print where files are looked for")
    add(group, "-v", "--verbose", action="store_true", help="show llama.cpp's log and full error traces")
    add(group, "--version", action="version", version=f"racer-local {version('racer-local')}")
    return parser


def given(args: argparse.Namespace, name: str) -> Any:
    """What an option says, None where it was left out."""
    return getattr(args, name, None)


def template_args(args: argparse.Namespace) -> dict[str, Any]:
    """Variables of the template; a value that is no JSON is text.

    Raises:
        UsageError: One has no name, or no value.
    """
    out: dict[str, Any] = {}
    for text in given(args, "template_args") or ():
        name, equals, value = text.partition("=")
        if not name.strip() or not equals:
            raise UsageError(f"--template-arg needs NAME=VALUE, as in enable_thinking=false, not {text!r}")
        try:
            out[name.strip()] = json.loads(value)
        except ValueError:
            out[name.strip()] = value
    return out


def settings(args: argparse.Namespace) -> tuple[dict[str, Any], DraftConfig, dict[str, Any]]:
    """Check everything that can be checked before a model is loaded."""
    params = {k: getattr(args, k) for k in ("n_ctx", "n_gpu_layers", "n_threads") if hasattr(args, k)}
    flash = given(args, "flash_attn")
    if flash in ("on", "off"):
        params["flash_attn"] = flash == "on"
    ModelParams(**params)
    if variables := template_args(args):
        params["chat_template_kwargs"] = variables
    wish = {
        "policy": given(args, "draft"),
        "budget": given(args, "draft_budget"),
        "draft_temperature": given(args, "draft_temp"),
        "chain": given(args, "chain"),
    }
    draft = DraftConfig(**{k: v for k, v in wish.items() if v is not None})
    names = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "seed")
    options: dict[str, Any] = {
        "sampling": SamplingParams(**{k: getattr(args, k) for k in names if hasattr(args, k)}),
        "stop": given(args, "stop") or (),
    }
    if any(not s for s in options["stop"]):
        raise UsageError("--stop needs a text of at least one character")
    if hasattr(args, "max_tokens"):
        if args.max_tokens < 0:
            raise UsageError(f"--max-tokens must be 0 or more, not {args.max_tokens}")
        options["max_tokens"] = args.max_tokens
    return params, draft, options
