"""racer-bench: the command line of the benchmarks. People read the terminal, programs read the JSON file."""

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from racer_local.bench import commands, questions
from racer_local.bench.output import check_writable
from racer_local.cli.command import Parser, report_errors
from racer_local.drafting.policies import FIXED_BUDGET, FIXED_POLICY, POLICIES

DEFAULT_METHODS = "off,auto,lookup,retrieval,logits,racer"


def build_parser() -> argparse.ArgumentParser:
    """All options of racer-bench."""
    parser = Parser(prog="racer-bench", description="Measure what drafting brings on this machine.")
    parser.add_argument("-v", "--verbose", action="store_true", help="full error traces")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, what: str, run: Callable[[argparse.Namespace, str], int]) -> argparse.ArgumentParser:
        sub = subparsers.add_parser(name, help=what, description=what, allow_abbrev=False)
        sub.set_defaults(run=run)
        return sub

    sub = command("run", "all methods over the same questions, in turns", commands.run)
    _model_options(sub)
    _question_options(sub)
    sub.add_argument("--methods", default=DEFAULT_METHODS, metavar="LIST", help=f"default: {DEFAULT_METHODS}")
    sub.add_argument("--budget", type=int, metavar="N", help=f"of fixed policies (default: {FIXED_BUDGET})")
    sub.add_argument("--fresh", action="store_true", help="empty all memories before each question")

    sub = command("cost", "time of a decode of n tokens, by context and flash attention", commands.cost)
    _model_options(sub)
    sub.add_argument("--contexts", default=None, metavar="LIST", help="context lengths (default: 256,1500,3500)")
    sub.add_argument("--sizes", default=None, metavar="LIST", help="tokens in a decode (default: 1 to 64)")

    sub = command("trace", "answers with every row the model gave, for simulate", commands.trace)
    _model_options(sub)
    _question_options(sub)
    sub.add_argument("--draft", choices=POLICIES, default=FIXED_POLICY)
    sub.add_argument("--budget", type=int, metavar="N", help=f"of a fixed policy (default: {FIXED_BUDGET})")

    sub = command("simulate", "drafting over a trace, without a model", commands.simulate)
    sub.add_argument("trace", type=Path, metavar="TRACE")
    sub.add_argument("--methods", default=DEFAULT_METHODS, metavar="LIST", help=f"default: {DEFAULT_METHODS}")
    sub.add_argument("--budget", type=int, metavar="N", help=f"of fixed policies (default: {FIXED_BUDGET})")
    sub.add_argument("--cost", default="smollm2-q4_1", metavar="NAME|FILE", help="what a decode costs")
    sub.add_argument("--out", type=Path, metavar="FILE")

    sub = command("priors", "chances that policy auto begins with, from recorded answers", commands.priors)
    sub.add_argument("traces", nargs="+", type=Path, metavar="TRACE")
    sub.add_argument("--cost", default="smollm2-bf16", metavar="NAME|FILE", help="what a decode costs")
    sub.add_argument("--out", type=Path, metavar="FILE")

    sub = command(
        "peer", "the same questions to a server with OpenAI's interface and timings (llama-server)", commands.peer
    )
    sub.add_argument("url", metavar="URL", help="for instance http://127.0.0.1:8080")
    _question_options(sub)
    sub.add_argument("--label", default="peer", metavar="NAME", help="what to call it in the table")
    sub.add_argument("--beside", type=Path, metavar="FILE", help="report of an earlier run, put into the same table")
    sub.add_argument("--out", type=Path, metavar="FILE")

    sub = command("plot", "a picture of reports (needs the extra 'bench')", commands.plot)
    sub.add_argument("files", nargs="+", type=Path, metavar="FILE")
    sub.add_argument("-o", "--out", type=Path, required=True, metavar="OUT", help="a .svg or .png file")

    sub = command("picture", "the chat over a recorded run (racer-chat --record), as an SVG", commands.picture)
    sub.add_argument("recording", type=Path, metavar="RUN.jsonl")
    sub.add_argument("-o", "--out", type=Path, required=True, metavar="OUT.svg")
    sub.add_argument("--keys", default="", metavar="LIST", help="pressed at the end: f2,f3 say")
    sub.add_argument("--size", default="100x34", metavar="WxH", help="columns and lines (default: 100x34)")
    sub.add_argument("--until", type=float, metavar="N", help="stop after N steps; below 1: after that part of them")
    sub.add_argument("--questions", type=int, default=1, metavar="K", help="how many are asked (default: 1)")

    sub = command("interface", "what the chat costs in speed, and how soon a key is answered", commands.interface)
    sub.add_argument("model", nargs="?", help="path or name (default: the demo model)")
    sub.add_argument("--out", type=Path, metavar="FILE", help="write the results here")
    sub.add_argument("--max-tokens", type=int, default=600, metavar="N", help="length of each answer (default: 600)")
    sub.add_argument("--repeats", type=int, default=3, metavar="N", help="rounds (default: 3)")
    what = "length of the answer during which keys are typed (default: 3000)"
    sub.add_argument("--key-tokens", type=int, default=3000, metavar="N", help=what)

    sub = command("kernels", "time of each drafting kernel", commands.kernels)
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
    sub.add_argument("--skip", type=int, default=0, metavar="K", help="questions of each kind to leave out before")
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


if __name__ == "__main__":
    sys.exit(main())
