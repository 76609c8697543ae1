"""racer-bench: the command line of the benchmarks. People read the terminal, programs read the JSON file."""

import argparse
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from racer_local import registry
from racer_local.bench import machine, questions, report
from racer_local.bench.output import Progress, check_writable, interruptible, model_hash, whole_numbers, write_json
from racer_local.bench.rows import OFF, Row
from racer_local.errors import ExitCode, UsageError
from racer_local.options import Parser, report_errors
from racer_local.settings import POLICIES, DraftConfig

if TYPE_CHECKING:
    from racer_local.api import Racer

DEFAULT_METHODS = "off,lookup,retrieval,logits,racer"


def build_parser() -> argparse.ArgumentParser:
    """All options of racer-bench."""
    parser = Parser(prog="racer-bench", description="Measure what drafting brings on this machine.")
    parser.add_argument("-v", "--verbose", action="store_true", help="full error traces")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, what: str, run: Callable[[argparse.Namespace, str], int]) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=what, description=what, allow_abbrev=False)
        sub.set_defaults(run=run)
        return sub

    sub = command("run", "all methods over the same questions, in turns", _run)
    _model_options(sub)
    _question_options(sub)
    sub.add_argument("--methods", default=DEFAULT_METHODS, metavar="LIST", help=f"default: {DEFAULT_METHODS}")
    sub.add_argument("--budget", type=int, default=DraftConfig().budget, metavar="N")
    sub.add_argument("--fresh", action="store_true", help="empty all memories before each question")

    sub = command("cost", "time of a decode of n tokens, by context and flash attention", _cost)
    _model_options(sub)
    sub.add_argument("--contexts", default=None, metavar="LIST", help="context lengths (default: 256,1500,3500)")
    sub.add_argument("--sizes", default=None, metavar="LIST", help="tokens in a decode (default: 1 to 64)")

    sub = command("record", "answers with every row the model gave, for replay", _record)
    _model_options(sub)
    _question_options(sub)
    sub.add_argument("--draft", choices=POLICIES, default=DraftConfig().policy)
    sub.add_argument("--budget", type=int, default=DraftConfig().budget, metavar="N")

    sub = command("replay", "drafting over recorded answers, without a model", _replay)
    sub.add_argument("trace", type=Path, metavar="TRACE")
    sub.add_argument("--methods", default=DEFAULT_METHODS, metavar="LIST", help=f"default: {DEFAULT_METHODS}")
    sub.add_argument("--budget", type=int, default=DraftConfig().budget, metavar="N")
    sub.add_argument("--cost", default="smollm2-q4_1", metavar="NAME|FILE", help="what a decode costs")
    sub.add_argument("--out", type=Path, metavar="FILE")

    sub = command("peer", "the same questions to a server with OpenAI's interface and timings (llama-server)", _peer)
    sub.add_argument("url", metavar="URL", help="for instance http://127.0.0.1:8080")
    _question_options(sub)
    sub.add_argument("--label", default="peer", metavar="NAME", help="what to call it in the table")
    sub.add_argument("--beside", type=Path, metavar="FILE", help="report of an earlier run, put into the same table")
    sub.add_argument("--out", type=Path, metavar="FILE")

    sub = command("plot", "a picture of reports (needs the extra 'bench')", _plot)
    sub.add_argument("files", nargs="+", type=Path, metavar="FILE")
    sub.add_argument("-o", "--out", type=Path, required=True, metavar="OUT", help="a .svg or .png file")

    sub = command("kernels", "time of each drafting kernel", _kernels)
    sub.add_argument("--out", type=Path, metavar="FILE")
    return parser


def _model_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("model", nargs="?", help="path or name (default: the demo model)")
    sub.add_argument("-c", "--ctx-size", dest="n_ctx", type=int, metavar="N")
    sub.add_argument("-ngl", "--gpu-layers", dest="n_gpu_layers", type=int, default=-1, metavar="N")
    sub.add_argument("-t", "--threads", dest="n_threads", type=int, metavar="N")
    sub.add_argument("--out", type=Path, metavar="FILE", help="write the results here")


def _question_options(sub: argparse.ArgumentParser) -> None:
    sub.add_argument("--questions", nargs="+", type=Path, default=[questions.OWN], metavar="FILE")
    sub.add_argument("--limit", type=int, metavar="K", help="questions of each kind")
    sub.add_argument("--max-tokens", type=int, default=256, metavar="N", help="bound of each answer")


def main(argv: list[str] | None = None) -> int:
    """Run racer-bench; returns the exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    args = build_parser().parse_args(arguments)
    command = shlex.join(["racer-bench", *arguments])

    def work() -> int:
        check_writable(getattr(args, "out", None))
        return args.run(args, command)

    return report_errors("racer-bench", work, verbose=args.verbose)


def _run(args: argparse.Namespace, command: str) -> int:
    from racer_local.bench import methods, rows, run

    chosen = methods.parse(args.methods, DraftConfig(budget=args.budget))
    asked = _questions(args)
    results = rows.Results()
    with _open(args) as racer:
        facts = _facts(command, racer)
        done = interruptible(
            lambda: run.run(
                racer,
                asked,
                chosen,
                args.max_tokens,
                fresh=args.fresh,
                results=results,
                on_progress=Progress("questions"),
            ),
            results.rows,
        )
        for method in chosen:
            method.close()
    cells = report.summarise(results.rows, OFF)
    print(_heading(facts, done.complete))
    print(report.table(cells))
    _print_sameness(results)
    write_json(args.out, {**facts, "complete": done.complete, "summary": _cells(cells), **results.as_dict()})
    return done.exit_code()


def _cost(args: argparse.Namespace, command: str) -> int:
    from racer_local.bench import cost
    from racer_local.llama import amx
    from racer_local.llama.engine import Engine
    from racer_local.llama.model import Model
    from racer_local.settings import MAX_BUDGET, ModelParams

    contexts = whole_numbers(args.contexts, "--contexts") or cost.CONTEXTS
    sizes = whole_numbers(args.sizes, "--sizes") or cost.default_sizes()
    if sizes[0] != 1 or sizes[-1] > MAX_BUDGET:
        raise UsageError(f"--sizes must begin with 1 and end at {MAX_BUDGET} or before")
    path = registry.find_model(args.model)
    n_ctx = args.n_ctx or max(contexts) + MAX_BUDGET
    if n_ctx < max(contexts) + sizes[-1]:
        raise UsageError(f"a context of {n_ctx} cannot hold {max(contexts)} tokens and {sizes[-1]} more; raise -c")
    show = Progress("measuring")
    curves = []

    def measure() -> None:
        for flash in (False, True):
            params = ModelParams(
                n_ctx=n_ctx, flash_attn=flash, n_threads=args.n_threads, n_gpu_layers=args.n_gpu_layers
            )
            model = Model(path, params, repack=amx.works(path))
            engine = Engine(model, params)
            for context in contexts:
                curves.append(cost.measure(engine, model, context, sizes, show.say))
            engine.close()
            model.close()

    done = interruptible(measure, curves)
    show.end()
    facts = {"command": command, "machine": machine.describe(), "model": path.name, "model_hash": model_hash(path)}
    print(_heading(facts, done.complete))
    if curves:
        print(cost.table(curves))
    write_json(args.out, {**facts, "complete": done.complete, "curves": [c.as_dict() for c in curves]})
    return done.exit_code()


def _record(args: argparse.Namespace, command: str) -> int:
    from racer_local.bench import record
    from racer_local.bench.trace import Trace

    if args.out is None:
        raise UsageError("say where to write the trace: --out TRACE.npz")
    config = DraftConfig(policy=args.draft, budget=args.budget)
    asked = _questions(args)
    trace = Trace({}, [])
    with _open(args) as racer:
        info = {
            **_facts(command, racer),
            "n_vocab": racer.model.n_vocab,
            "n_ctx": racer.engine.n_ctx,
            "max_tokens": args.max_tokens,
            "draft": args.draft,
            "budget": args.budget,
        }
        done = interruptible(
            lambda: record.record(racer, asked, config, args.max_tokens, info, trace, Progress("questions")),
            trace.answers,
        )
    if trace.answers:
        trace.save(args.out)
        n_tokens = sum(len(a.tokens) for a in trace.answers)
        print(f"{args.out}: {len(trace.answers)} answers, {n_tokens} tokens", file=sys.stderr)
    return done.exit_code()


def _replay(args: argparse.Namespace, command: str) -> int:
    from racer_local.bench import curves, methods, replay
    from racer_local.bench.trace import TOP, Trace

    curve = curves.load(args.cost)
    chosen = methods.parse(args.methods, DraftConfig(budget=args.budget))
    trace = Trace.load(args.trace)
    rows: list[Row] = []
    started = time.perf_counter()

    def run() -> None:
        for method in chosen:
            if method.config is None:
                raise UsageError(f"{method.label} has nothing to replay")
            if method.config.breadth > TOP:
                raise UsageError(f"a trace holds {TOP} tokens of each row; a larger breadth cannot be replayed")
            rows.extend(replay.replay(trace, method.label, method.config, curve, Progress(method.label)))

    done = interruptible(run, rows)
    cells = report.summarise(rows, OFF)
    facts = {"command": command, "machine": machine.describe(), "trace": trace.info, "curve": curve.source}
    print(_heading(facts, done.complete))
    print(f"cost of a decode: {curve.source}; speeds are in tokens per plain step")
    print(report.table(cells))
    print(f"{sum(r.n_tokens for r in rows) / (time.perf_counter() - started):.0f} tokens/s replayed", file=sys.stderr)
    write_json(args.out, {**facts, "complete": done.complete, "summary": _cells(cells)})
    return done.exit_code()


def _peer(args: argparse.Namespace, command: str) -> int:
    from racer_local.bench import peer, rows

    before = rows.load_rows(args.beside) if args.beside else []
    if args.label in {row.method for row in before}:
        raise UsageError(f"{args.beside} has a method {args.label!r} already; choose another --label")
    asked = _questions(args)
    answered: list[rows.Row] = []
    done = interruptible(
        lambda: peer.ask(args.url, args.label, asked, args.max_tokens, answered, Progress("questions")),
        answered,
    )
    cells = report.summarise([*before, *answered], OFF)
    facts = {"command": command, "machine": machine.describe(), "model": args.url}
    print(_heading(facts, done.complete))
    print(report.table(cells))
    everything = rows.Results([*before, *answered]).as_dict()
    write_json(args.out, {**facts, "complete": done.complete, "summary": _cells(cells), **everything})
    return done.exit_code()


def _plot(args: argparse.Namespace, _command: str) -> int:
    from racer_local.bench import plot

    plot.draw(args.files, args.out)
    return ExitCode.DONE


def _kernels(args: argparse.Namespace, command: str) -> int:
    from racer_local.bench import kernels

    facts = {"command": command, "machine": machine.describe()}
    timings = kernels.run()
    print(_heading(facts, True))
    print(kernels.table(timings))
    write_json(args.out, {**facts, "kernels": kernels.as_dicts(timings)})
    return ExitCode.DONE


def _questions(args: argparse.Namespace) -> list[questions.Question]:
    if args.limit is not None and args.limit < 1:
        raise UsageError("--limit must be 1 or more")
    if args.max_tokens < 1:
        raise UsageError("--max-tokens must be 1 or more")
    return questions.load(args.questions, args.limit)


def _open(args: argparse.Namespace) -> "Racer":
    from racer_local.api import Racer

    options = {k: getattr(args, k) for k in ("n_ctx", "n_gpu_layers", "n_threads")}
    return Racer(registry.find_model(args.model), **options)


def _facts(command: str, racer: "Racer") -> dict[str, Any]:
    return {
        "command": command,
        "machine": machine.describe(),
        "model": racer.model.path.name,
        "model_hash": model_hash(racer.model.path),
        "n_ctx": racer.engine.n_ctx,
        "n_threads": racer.engine.n_threads,
        "flash_attn": racer.engine.flash_attn,
        "device": racer.model.device,
        "mode": racer.mode.name,
    }


def _heading(facts: dict[str, Any], done: bool) -> str:
    lines = [facts["command"], machine.heading()]
    if "n_threads" in facts:
        flash = "on" if facts["flash_attn"] else "off"
        lines.append(f"{facts['model']} on {facts['device']}, {facts['n_threads']} threads, flash attention {flash}")
    if not done:
        lines.append("interrupted: this is what was measured so far")
    return "\n".join([*lines, ""])


def _print_sameness(results: Any) -> None:
    for label, n in results.compared.items():
        gaps = sorted((d.gap for d in results.differences if d.method == label), reverse=True)
        largest = f"; largest gaps at a first difference: {', '.join(f'{g:.2f}' for g in gaps[:5])}" if gaps else ""
        print(f"{label}: {results.same.get(label, 0)} of {n} answers have the same text as {OFF}{largest}")


def _cells(cells: dict[str, dict[str, report.Cell]]) -> dict[str, Any]:
    return {kind: {method: asdict(cell) for method, cell in by.items()} for kind, by in cells.items()}


if __name__ == "__main__":
    sys.exit(main())
