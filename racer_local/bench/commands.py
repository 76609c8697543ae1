"""What each command of racer-bench does: measure, print a table for people, write a report for programs."""

import argparse
import time
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from racer_local import gguf_file, registry
from racer_local.bench import machine, questions, report
from racer_local.bench.output import Progress, interruptible, whole_numbers, write_json
from racer_local.bench.results import OFF, Result
from racer_local.cli.command import say
from racer_local.cli.door import terminal
from racer_local.drafting.policies import OFF_POLICY, POLICIES, DraftConfig
from racer_local.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from racer_local.api import Racer


def run(args: argparse.Namespace, command: str) -> int:
    """All methods over the same questions."""
    from racer_local.bench import methods
    from racer_local.bench.results import Results
    from racer_local.bench.run import run as measure

    chosen = methods.parse(args.methods, args.budget)
    if any(method.label == methods.ORACLE for method in chosen):
        raise UsageError(f"{methods.ORACLE} knows the answers, so it can only be simulated")
    asked = _questions(args)
    results = Results()
    with _open(args) as racer:
        facts = _facts(command, racer)
        done = interruptible(
            lambda: measure(
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
    say(_heading(facts, done.complete))
    say(report.table(cells))
    _print_sameness(results)
    write_json(args.out, {**facts, "complete": done.complete, "summary": _cells(cells), **results.as_dict()})
    return done.exit_code()


def cost(args: argparse.Namespace, command: str) -> int:
    """Time of a decode of n tokens."""
    from racer_local import loading
    from racer_local.bench import cost as costs
    from racer_local.settings import MAX_BUDGET, ModelParams

    contexts = whole_numbers(args.contexts, "--contexts") or costs.CONTEXTS
    sizes = whole_numbers(args.sizes, "--sizes") or costs.default_sizes()
    if sizes[0] != 1 or sizes[-1] > MAX_BUDGET:
        raise UsageError(f"--sizes must begin with 1 and end at {MAX_BUDGET} or before")
    path = loading.find(args.model)
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
            with closing(loading.load(path, params)) as engine, closing(engine.model):
                for context in contexts:
                    curves.append(costs.measure(engine, context, sizes, show.say))

    done = interruptible(measure, curves)
    show.end()
    facts = {
        "command": command,
        "machine": machine.describe(),
        "model": path.name,
        "model_hash": gguf_file.file_id(path),
    }
    say(_heading(facts, done.complete))
    if curves:
        say(costs.table(curves))
    write_json(args.out, {**facts, "complete": done.complete, "curves": [c.as_dict() for c in curves]})
    return done.exit_code()


def trace(args: argparse.Namespace, command: str) -> int:
    """Answers with their rows."""
    from racer_local.bench.trace import Trace
    from racer_local.bench.trace_recorder import record_trace

    if args.out is None:
        raise UsageError("say where to write the trace: --out TRACE.npz")
    policy = POLICIES[args.draft]
    if args.budget is not None and (policy.chooses_budget or not policy.drafts):
        raise UsageError(f"--budget has no effect with --draft {args.draft}")
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
            "budget": config.node_limit + 1,
        }
        done = interruptible(
            lambda: record_trace(racer, asked, config, args.max_tokens, info, trace, Progress("questions")),
            trace.answers,
        )
    if trace.answers:
        trace.save(args.out)
        n_tokens = sum(len(a.tokens) for a in trace.answers)
        say(f"{args.out}: {len(trace.answers)} answers, {n_tokens} tokens", on_stderr=True)
    return done.exit_code()


def simulate(args: argparse.Namespace, command: str) -> int:
    """Drafting over recorded answers."""
    from racer_local.bench import curves, methods
    from racer_local.bench.simulate import simulate as simulate_method
    from racer_local.bench.trace import TOP, Trace

    curve = curves.load(args.cost)
    chosen = methods.parse(args.methods, args.budget)
    trace = Trace.load(args.trace)
    rows: list[Result] = []
    started = time.perf_counter()

    def run() -> None:
        for method in chosen:
            if method.config is None:
                raise UsageError(f"{method.label} has nothing to simulate")
            if method.config.breadth > TOP:
                raise UsageError(f"a trace holds {TOP} tokens of each row; a larger breadth cannot be simulated")
            rows.extend(simulate_method(trace, method.label, method.config, curve, Progress(method.label)))

    done = interruptible(run, rows)
    cells = report.summarise(rows, OFF)
    facts = {"command": command, "machine": machine.describe(), "trace": trace.info, "curve": curve.source}
    say(_heading(facts, done.complete))
    say(f"cost of a decode: {curve.source}; speeds are in tokens per plain step")
    say(report.table(cells))
    say(f"{sum(r.n_tokens for r in rows) / (time.perf_counter() - started):.0f} tokens/s simulated", on_stderr=True)
    write_json(args.out, {**facts, "complete": done.complete, "summary": _cells(cells)})
    return done.exit_code()


def priors(args: argparse.Namespace, command: str) -> int:
    """Chances that policy `auto` begins with."""
    from racer_local.bench import curves
    from racer_local.bench import priors as making
    from racer_local.bench.trace import Trace

    made = making.make([Trace.load(file) for file in args.traces], curves.load(args.cost), Progress("answers"))
    say(f"{_heading({'command': command}, True)}\n{making.summary(made)}")
    write_json(args.out, making.as_dict(made, command))
    return ExitCode.DONE


def peer(args: argparse.Namespace, command: str) -> int:
    """Another server in the same table."""
    from racer_local.bench.peer import ask
    from racer_local.bench.results import Results, load_results

    before = load_results(args.beside) if args.beside else []
    if args.label in {row.method for row in before}:
        raise UsageError(f"{args.beside} has a method {args.label!r} already; choose another --label")
    asked = _questions(args)
    answered: list[Result] = []
    done = interruptible(
        lambda: ask(args.url, args.label, asked, args.max_tokens, answered, Progress("questions")),
        answered,
    )
    cells = report.summarise([*before, *answered], OFF)
    facts = {"command": command, "machine": machine.describe(), "model": args.url}
    say(_heading(facts, done.complete))
    say(report.table(cells))
    everything = Results([*before, *answered]).as_dict()
    write_json(args.out, {**facts, "complete": done.complete, "summary": _cells(cells), **everything})
    return done.exit_code()


def plot(args: argparse.Namespace, _command: str) -> int:
    """A picture of reports."""
    from racer_local.bench.plot import draw

    draw(args.files, args.out)
    return ExitCode.DONE


def picture(args: argparse.Namespace, _command: str) -> int:
    """The chat over a recorded run."""
    keys = [key for key in args.keys.split(",") if key]
    terminal().draw_picture(
        args.recording, args.out, size=args.size, keys=keys, until=args.until, questions=args.questions
    )
    return ExitCode.DONE


def interface(args: argparse.Namespace, command: str) -> int:
    """What the terminal chat costs."""
    if min(args.max_tokens, args.key_tokens) < 8 or args.repeats < 1:
        raise UsageError("--max-tokens and --key-tokens must be 8 or more, --repeats 1 or more")
    path = registry.find_model(args.model)
    facts = {"command": command, "machine": machine.describe(), "model": path.name}
    timings, table = terminal().time_interface(path, args.max_tokens, args.key_tokens, args.repeats, Progress("runs"))
    say(_heading(facts, True))
    say(table)
    write_json(args.out, {**facts, "interface": timings})
    return ExitCode.DONE


def kernels(args: argparse.Namespace, command: str) -> int:
    """Time of each kernel."""
    from racer_local.bench import kernels as timing

    facts = {"command": command, "machine": machine.describe()}
    timings = timing.run()
    say(_heading(facts, True))
    say(timing.table(timings))
    write_json(args.out, {**facts, "kernels": timing.as_dicts(timings)})
    return ExitCode.DONE


def _questions(args: argparse.Namespace) -> list[questions.Question]:
    if args.limit is not None and args.limit < 1:
        raise UsageError("--limit must be 1 or more")
    if args.skip < 0:
        raise UsageError("--skip must be 0 or more")
    if args.max_tokens < 1:
        raise UsageError("--max-tokens must be 1 or more")
    return questions.load(args.questions, args.limit, args.skip)


def _open(args: argparse.Namespace) -> "Racer":
    from racer_local.api import Racer

    options = {k: getattr(args, k) for k in ("n_ctx", "n_gpu_layers", "n_threads")}
    # from a cold start: what earlier starts have learned is left alone
    return Racer(registry.find_model(args.model), draft=OFF_POLICY, remember=False, **options)


def _facts(command: str, racer: "Racer") -> dict[str, Any]:
    return {
        "command": command,
        "machine": machine.describe(),
        "model": racer.model.path.name,
        "model_hash": gguf_file.file_id(racer.model.path),
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
        say(f"{label}: {results.same.get(label, 0)} of {n} answers have the same text as {OFF}{largest}")


def _cells(cells: dict[str, dict[str, report.Cell]]) -> dict[str, Any]:
    return {kind: {method: asdict(cell) for method, cell in by.items()} for kind, by in cells.items()}
