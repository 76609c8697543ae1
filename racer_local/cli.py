"""racer-chat: one answer on stdout, or the terminal chat when there is a terminal and no prompt."""

import argparse
import json
import os
import stat
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from racer_local import config, locations, registry
from racer_local.answer_summary import summary
from racer_local.console import Interrupt, Progress
from racer_local.errors import ExitCode, UsageError
from racer_local.options import Parser, report_errors
from racer_local.settings import MAX_BUDGET, POLICIES, DraftConfig, ModelParams, SamplingParams
from racer_local.terminal_text import neutral

if TYPE_CHECKING:
    from racer_local.answers import Completion, Step
    from racer_local.api import Racer

FILLED_IN = (
    *("system", "max-tokens", "temp", "top-k", "top-p", "min-p", "repeat-penalty", "seed", "stop"),
    *("ctx-size", "gpu-layers", "threads", "flash-attn", "raw", "chat-template"),
    *("draft", "draft-budget", "draft-temp", "chain"),
)
"""Options that the environment and config.toml may give."""
NOT_REPLAYED = ("record", "json", "jsonl", "doctor", "resume", "model")


def build_parser() -> argparse.ArgumentParser:
    """All options of racer-chat; defaults left out here are those of `settings`."""
    parser = Parser(
        prog="racer-chat",
        description="Chat with a GGUF model in the terminal, or answer one prompt. Drafts make it faster; "
        "the model still decides every token.",
        epilog="Exit codes: 0 done, 1 failed, 2 usage, 3 model cannot be loaded, 4 context full, 130 interrupted.",
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    parser.add_argument("model", nargs="?", help="path of a .gguf file, or a name of --list-models (default: demo)")
    parser.add_argument("-p", "--prompt", metavar="TEXT", help="answer TEXT and leave; '-' reads it from stdin")
    parser.add_argument("-s", "--system", metavar="TEXT", help="system prompt")
    parser.add_argument("-n", "--max-tokens", type=int, metavar="N", help="end the answer after N tokens")

    parser.add_argument(
        "--resume",
        nargs="?",
        const="",
        metavar="NAME",
        help="go on with an earlier conversation, the last one if none is named",
    )
    parser.add_argument("--sessions", action="store_true", help="list the conversations that --resume knows")

    group = parser.add_argument_group("sampling")
    group.add_argument("--temp", dest="temperature", type=float, metavar="T", help="temperature; 0 is greedy")
    group.add_argument("--top-k", type=int, metavar="K")
    group.add_argument("--top-p", type=float, metavar="P")
    group.add_argument("--min-p", type=float, metavar="P")
    group.add_argument("--repeat-penalty", type=float, metavar="X")
    group.add_argument("--seed", type=int, metavar="N")
    group.add_argument("--stop", action="append", metavar="TEXT", help="end the answer before TEXT (repeatable)")

    group = parser.add_argument_group("model")
    group.add_argument("-c", "--ctx-size", dest="n_ctx", type=int, metavar="N", help="context in tokens")
    group.add_argument("-ngl", "--gpu-layers", dest="n_gpu_layers", type=int, metavar="N", help="-1: all (default)")
    group.add_argument("-t", "--threads", dest="n_threads", type=int, metavar="N")
    group.add_argument("-fa", "--flash-attn", choices=("auto", "on", "off"), help="auto: on for GPUs, off for CPUs")
    group.add_argument("--raw", action="store_true", help="complete the prompt without a chat template")
    group.add_argument("--chat-template", metavar="FILE", help="use this Jinja template instead of the model's own")

    group = parser.add_argument_group("drafting")
    group.add_argument("--draft", choices=POLICIES, help="where drafts come from")
    group.add_argument("--draft-budget", type=int, metavar="N", help=f"tokens in one decode, 1 to {MAX_BUDGET}")
    group.add_argument(
        "--draft-temp", type=float, metavar="T", help="above 1 policy auto drafts wider trees, below deeper ones"
    )
    group.add_argument("--chain", action="store_true", help="draft one path instead of a tree")

    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="print one JSON object: text, usage, timings")
    group.add_argument("--jsonl", action="store_true", help="print a JSON line for each step, totals last")
    group.add_argument("--record", type=Path, metavar="FILE", help="write the run to FILE, a new file, for --replay")
    group.add_argument("--replay", type=Path, metavar="FILE", help="chat with a recorded run; no model is needed")
    group.add_argument("--speed", type=float, metavar="X", help="of --replay: so many times faster; 0: without waiting")
    group.add_argument("--doctor", action="store_true", help="report on MODEL on this machine (also as --json)")
    group.add_argument("--list-models", action="store_true", help="print the names that work as MODEL")
    group.add_argument("--paths", action="store_true", help="print where files are looked for")
    group.add_argument("-v", "--verbose", action="store_true", help="show llama.cpp's log and full error traces")
    group.add_argument("--version", action="version", version=f"racer-local {version('racer-local')}")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run racer-chat; returns the exit code."""
    parser = build_parser()
    args = parser.parse_args(argv)

    def work() -> int:
        config.fill(args, parser, FILLED_IN, own := config.load())
        return _run(args, own)

    return report_errors("racer-chat", work, verbose=bool(_given(args, "verbose")))


def _given(args: argparse.Namespace, name: str) -> Any:
    return getattr(args, name, None)


def _run(args: argparse.Namespace, own: config.Config) -> int:
    if _given(args, "paths"):
        for name, path in locations.all_paths().items():
            print(f"{name:15} {path}")
        return ExitCode.DONE
    if _given(args, "sessions"):
        sys.stdout.writelines(f"{line}\n" for line in import_module("racer_local.tui.archive").lines())
        return ExitCode.DONE
    if _given(args, "list_models"):
        _list_models()
        return ExitCode.DONE
    if _given(args, "json") and _given(args, "jsonl"):
        raise UsageError("--json and --jsonl exclude each other")
    if _given(args, "raw") and (_given(args, "system") or _given(args, "chat_template")):
        raise UsageError("--raw uses no chat template, so --system and --chat-template have no place")
    if _given(args, "replay"):
        if _prompt(args) is not None or any(_given(args, name) is not None for name in NOT_REPLAYED):
            raise UsageError("--replay is the chat without a model; it takes no prompt and no other output")
        return import_module("racer_local.tui.start").play(args.replay, getattr(args, "speed", 1.0), own=own)
    record = _given(args, "record")
    if record and (_given(args, "raw") or _given(args, "doctor")):
        raise UsageError("--record writes down a chat; --raw and --doctor are none")
    if record:
        import_module("racer_local.tui.recording").check_new(record)
    params, draft, options = _settings(args)
    prompt = None if _given(args, "doctor") else _prompt(args)
    if prompt is not None and not prompt.strip():
        raise UsageError("the prompt is empty; write something after -p or on stdin")
    path = registry.find_model(_given(args, "model"))
    template = _read_template(_given(args, "chat_template"))

    def open_racer(on_progress: Callable[[float], bool]) -> "Racer":
        from racer_local.api import Racer
        from racer_local.llama import library

        library.load(echo_log=bool(_given(args, "verbose")))
        racer = Racer(path, draft=draft, chat_template=template, on_progress=on_progress, **params)
        return import_module("racer_local.tui.recording").Recording(record, racer) if record else racer

    if _given(args, "doctor"):
        return _doctor(args, open_racer)
    if prompt is None:
        return import_module("racer_local.tui.start").start(
            open_racer,
            title=path.name,
            system=_given(args, "system"),
            resume=_given(args, "resume"),
            options={**options, "draft": draft},
            loading=None if record else {"draft": draft, **params},
            own=own,
        )
    return _answer(args, open_racer, prompt, options)


def _settings(args: argparse.Namespace) -> tuple[dict[str, Any], DraftConfig, dict[str, Any]]:
    """Check everything that can be checked before a model is loaded."""
    params = {k: getattr(args, k) for k in ("n_ctx", "n_gpu_layers", "n_threads") if hasattr(args, k)}
    flash = _given(args, "flash_attn")
    if flash in ("on", "off"):
        params["flash_attn"] = flash == "on"
    ModelParams(**params)
    wish = {
        "policy": _given(args, "draft"),
        "budget": _given(args, "draft_budget"),
        "draft_temperature": _given(args, "draft_temp"),
        "chain": _given(args, "chain"),
    }
    draft = DraftConfig(**{k: v for k, v in wish.items() if v is not None})
    names = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "seed")
    options: dict[str, Any] = {
        "sampling": SamplingParams(**{k: getattr(args, k) for k in names if hasattr(args, k)}),
        "stop": _given(args, "stop") or (),
    }
    if any(not s for s in options["stop"]):
        raise UsageError("--stop needs a text of at least one character")
    if hasattr(args, "max_tokens"):
        if args.max_tokens < 0:
            raise UsageError(f"--max-tokens must be 0 or more, not {args.max_tokens}")
        options["max_tokens"] = args.max_tokens
    return params, draft, options


def _prompt(args: argparse.Namespace) -> str | None:
    """The prompt to answer; None when the terminal chat is wanted.

    Raises:
        UsageError: There is neither a prompt nor a terminal to ask for one.
    """
    given = _given(args, "prompt")
    piped = sys.stdin.read() if given == "-" or _is_piped(sys.stdin) else ""
    if given not in (None, "-"):
        return f"{given}\n\n{piped}" if piped.strip() else given
    if given == "-" or piped:
        return piped
    if _given(args, "json") or _given(args, "jsonl") or _given(args, "raw"):
        raise UsageError("there is no prompt; give one with -p TEXT or on stdin")
    if not all(stream and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise UsageError("there is no prompt and no terminal to chat in; give a prompt with -p TEXT or on stdin")
    return None


def _is_piped(stream: Any) -> bool:
    """Whether somebody sends text on stdin: a pipe, a file or a socket, not a terminal or a device."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _read_template(name: str | None) -> str | None:
    if name is None:
        return None
    try:
        return Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the chat template {name}: {error}") from error


def _list_models() -> None:
    for entry in registry.entries().values():
        path = registry.locate(entry)
        print(f"{entry.name:12} {entry.description}; needs {entry.needs or '?'}")
        print(f"{'':12} {path or 'not found: ' + ', '.join(entry.files)}")


def _doctor(args: argparse.Namespace, open_racer: Callable[..., "Racer"]) -> int:
    from racer_local import doctor

    interrupt = Interrupt()
    with interrupt, Progress(interrupt) as progress:
        opened = open_racer(progress)
    with opened as racer:
        report = doctor.examine(racer)
        print(json.dumps(report.as_dict(), ensure_ascii=False) if _given(args, "json") else neutral(report.text()))
    return ExitCode.DONE


def _answer(args: argparse.Namespace, open_racer: Callable[..., "Racer"], prompt: str, options: dict[str, Any]) -> int:
    interrupt = Interrupt()
    with interrupt, Progress(interrupt) as progress:
        opened = open_racer(progress)
    with interrupt, opened as racer:
        interrupt.racer = racer
        said = {racer.chat_format.note} if _given(args, "raw") else set()
        _say_notes(racer, said)
        if _given(args, "raw"):
            steps = racer.stream(prompt, **options)
        else:
            system = _given(args, "system")
            messages = [{"role": "system", "content": system}] if system else []
            steps = racer.stream_chat([*messages, {"role": "user", "content": prompt}], **options)
        if interrupt.asked:  # while the model was being prepared, with nobody to tell yet
            racer.cancel()
        from racer_local.answers import collect

        as_json, as_lines = _given(args, "json"), _given(args, "jsonl")
        show = _jsonl_step if as_lines else _plain_step
        done = collect(steps if as_json else _shown(steps, show))
        if as_json or as_lines:
            print(json.dumps(_totals(racer, done), ensure_ascii=False), flush=True)
        else:
            print(f"racer-chat: {summary(done.stats)}", file=sys.stderr)
    _say_notes(racer, said)
    return ExitCode.INTERRUPTED if done.finish_reason == "cancelled" else ExitCode.DONE


def _say_notes(racer: "Racer", said: set[str]) -> None:
    """Tell people on stderr what was not said yet."""
    for note in racer.notes:
        if note not in said:
            said.add(note)
            print(f"racer-chat: {neutral(note)}", file=sys.stderr)


def _shown(steps: Iterator["Step"], show: Callable[["Step"], None]) -> Iterator["Step"]:
    for step in steps:
        show(step)
        yield step


def _plain_step(step: "Step") -> None:
    text = neutral(step.text) if sys.stdout.isatty() else step.text
    if step.finish_reason:
        text += "\n"
    if text:
        print(text, end="", flush=True)


def _jsonl_step(step: "Step") -> None:
    line = {
        "text": step.text,
        "tokens": [
            {"id": t.id, "text": t.text, "source": t.source.label, "match_len": t.match_len, "depth": t.depth}
            for t in step.tokens
        ],
        "drafted": len(step.tree),
        "accepted": len(step.path),
        "note": step.note,
        "finish_reason": step.finish_reason,
    }
    print(json.dumps(line, ensure_ascii=False), flush=True)


def _totals(racer: "Racer", done: "Completion") -> dict[str, Any]:
    """The JSON object of an answer."""
    return {
        "model": racer.model.path.name,
        "text": done.text,
        "finish_reason": done.finish_reason,
        "usage": done.stats.usage(),
        "timings": done.stats.timings(),
        "draft": {**racer.drafting(), "note": done.note},
    }


if __name__ == "__main__":
    sys.exit(main())
