"""racer-chat: one answer on stdout, or the terminal chat when there is a terminal and no prompt."""

import argparse
import json
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from racer_local import locations, registry
from racer_local.display import neutral, summary
from racer_local.errors import ExitCode, UsageError
from racer_local.options import Parser, report_errors
from racer_local.settings import MAX_BUDGET, POLICIES, DraftConfig, ModelParams, SamplingParams

if TYPE_CHECKING:
    from racer_local.api import Racer
    from racer_local.records import Completion, Step

PROGRESS_AFTER_S = 0.7
"""Loading that takes longer shows its progress."""


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
    group.add_argument("--chain", action="store_true", help="draft one path instead of a tree")

    group = parser.add_argument_group("output")
    group.add_argument("--json", action="store_true", help="print one JSON object: text, usage, timings")
    group.add_argument("--jsonl", action="store_true", help="print a JSON line for each step, totals last")
    group.add_argument("--list-models", action="store_true", help="print the names that work as MODEL")
    group.add_argument("--paths", action="store_true", help="print where files are looked for")
    group.add_argument("-v", "--verbose", action="store_true", help="show llama.cpp's log and full error traces")
    group.add_argument("--version", action="version", version=f"racer-local {version('racer-local')}")
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run racer-chat; returns the exit code."""
    args = build_parser().parse_args(argv)
    return report_errors("racer-chat", lambda: _run(args), verbose=bool(_given(args, "verbose")))


def _given(args: argparse.Namespace, name: str) -> Any:
    return getattr(args, name, None)


def _run(args: argparse.Namespace) -> int:
    if _given(args, "paths"):
        for name, path in locations.all_paths().items():
            print(f"{name:15} {path}")
        return ExitCode.DONE
    if _given(args, "list_models"):
        _list_models()
        return ExitCode.DONE
    if _given(args, "json") and _given(args, "jsonl"):
        raise UsageError("--json and --jsonl exclude each other")
    if _given(args, "raw") and (_given(args, "system") or _given(args, "chat_template")):
        raise UsageError("--raw uses no chat template, so --system and --chat-template have no place")
    params, draft, options = _settings(args)
    prompt = _prompt(args)
    if prompt is not None and not prompt.strip():
        raise UsageError("the prompt is empty; write something after -p or on stdin")
    path = registry.find_model(_given(args, "model"))
    template = _read_template(_given(args, "chat_template"))

    def open_racer(on_progress: Callable[[float], bool]) -> "Racer":
        from racer_local.api import Racer
        from racer_local.llama import library

        library.load(echo_log=bool(_given(args, "verbose")))
        return Racer(path, draft=draft, chat_template=template, on_progress=on_progress, **params)

    if prompt is None:
        app = import_module("racer_local.tui.app")
        return app.run(open_racer, system=_given(args, "system"), options=options, title=path.name)
    return _answer(args, open_racer, prompt, options)


def _settings(args: argparse.Namespace) -> tuple[dict[str, Any], DraftConfig, dict[str, Any]]:
    """Check everything that can be checked before a model is loaded."""
    params = {k: getattr(args, k) for k in ("n_ctx", "n_gpu_layers", "n_threads") if hasattr(args, k)}
    flash = _given(args, "flash_attn")
    if flash in ("on", "off"):
        params["flash_attn"] = flash == "on"
    ModelParams(**params)
    wish = {"policy": _given(args, "draft"), "budget": _given(args, "draft_budget"), "chain": _given(args, "chain")}
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


def _answer(args: argparse.Namespace, open_racer: Callable[..., "Racer"], prompt: str, options: dict[str, Any]) -> int:
    interrupt = _Interrupt()
    with interrupt, _Progress(interrupt) as progress:
        opened = open_racer(progress)
    with interrupt, opened as racer:
        interrupt.racer = racer
        if _given(args, "raw"):
            steps = racer.stream(prompt, **options)
        else:
            system = _given(args, "system")
            messages = [{"role": "system", "content": system}] if system else []
            steps = racer.stream_chat([*messages, {"role": "user", "content": prompt}], **options)
            if racer.chat_format.note:
                print(f"racer-chat: {neutral(racer.chat_format.note)}", file=sys.stderr)
        if interrupt.asked:  # while the model was being prepared, with nobody to tell yet
            racer.cancel()
        from racer_local.api import collect

        as_json, as_lines = _given(args, "json"), _given(args, "jsonl")
        show = _jsonl_step if as_lines else _plain_step
        done = collect(steps if as_json else _shown(steps, show))
        if as_json or as_lines:
            print(json.dumps(_totals(racer, done), ensure_ascii=False), flush=True)
        else:
            print(f"racer-chat: {summary(done.stats)}", file=sys.stderr)
    return ExitCode.INTERRUPTED if done.finish_reason == "cancelled" else ExitCode.DONE


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
        "draft": racer.drafting(),
    }


class _Interrupt:
    """Ctrl+C: the first one ends the answer and keeps its text, the second one leaves."""

    def __init__(self) -> None:
        self.asked = False
        self.racer: Racer | None = None
        self._before: Any = None

    def __enter__(self) -> "_Interrupt":
        self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _on_signal(self, *_: object) -> None:
        if self.asked:
            os._exit(ExitCode.INTERRUPTED)
        self.asked = True
        if self.racer is not None:
            self.racer.cancel()


class _Progress:
    """Progress of loading on stderr, for people, when it takes longer. A context manager around the loading."""

    def __init__(self, interrupt: _Interrupt) -> None:
        self._interrupt = interrupt
        self._timer = threading.Timer(PROGRESS_AFTER_S, self._begin)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._says = "loading"
        self._shown = False

    def __enter__(self) -> "_Progress":
        if sys.stderr.isatty():
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            if self._shown:
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = False

    def __call__(self, progress: float) -> bool:
        self._says = f"loading {progress:.0%}" if progress < 1 else "preparing (the first start takes some seconds)"
        if self._shown:
            self._draw()
        return not self._interrupt.asked

    def _begin(self) -> None:
        with self._lock:
            self._shown = True
        self._draw()

    def _draw(self) -> None:
        with self._lock:
            if self._shown:
                print(f"\r\x1b[K{self._says} ", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
