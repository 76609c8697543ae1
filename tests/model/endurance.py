"""Long runs on a tiny model: does memory stay flat, and does our own work for a step stay the same?

    python -m tests.model.endurance                     # 2,000 turns, 200,000 tokens, 50 loads: some minutes
    python -m tests.model.endurance --turns 60 --tokens 3000 --loads 5

Prints one JSON object of figures. Every turn adds to a conversation that is cut back as the chat cuts it, so the
context is full most of the time; the last fifth of the run is compared with the fifth after the warm-up.
"""

import argparse
import gc
import json
import os
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from racer_local import Racer
from tests.tiny import write_llama

N_CTX = 512
MIB = 1 << 20


def resident() -> float:
    """Resident memory of this process in MiB."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def talk(path: Path, n_turns: int, n_tokens: int) -> dict[str, Any]:
    """Hold one conversation and watch memory and own work."""
    memory, own = [], []
    with Racer(path, n_ctx=N_CTX, remember=False) as racer:
        messages: list[dict[str, str]] = []
        done = 0
        for turn in range(n_turns):
            messages.append({"role": "user", "content": f"the {turn % 17} and {turn % 29} in there"})
            prompt = racer.prepare(messages, make_room=True)
            messages = [dict(m) for m in prompt.messages]
            answer = racer.generate(prompt, max_tokens=max(1, n_tokens // n_turns), temperature=0.7, seed=turn)
            messages.append({"role": "assistant", "content": answer.text})
            done += answer.stats.predicted_n
            own.append(answer.stats.own_s / answer.stats.steps)
            memory.append(resident() if turn % 20 == 0 else memory[-1])
        nodes, bound = racer.n_nodes, racer.draft.automaton_nodes(N_CTX)
    fifth = max(1, n_turns // 5)
    early, late = slice(fifth, 2 * fifth), slice(-fifth, None)
    return {
        "turns": n_turns,
        "tokens": done,
        "resident_mib_early": round(median(memory[early]), 1),
        "resident_mib_late": round(median(memory[late]), 1),
        "own_ms_a_step_early": round(median(own[early]) * 1e3, 4),
        "own_ms_a_step_late": round(median(own[late]) * 1e3, 4),
        "automaton_nodes": nodes,
        "automaton_bound": bound,
    }


def load_often(path: Path, n: int) -> dict[str, Any]:
    """Load, answer and close again and again."""
    memory = []
    for _ in range(n):
        with Racer(path, n_ctx=N_CTX, remember=False) as racer:
            racer.generate("the a", max_tokens=8, temperature=0)
        memory.append(resident())
    early, late = round(memory[n // 5], 1), round(memory[-1], 1)
    return {"loads": n, "resident_mib_after_a_fifth": early, "resident_mib_at_end": late}


def main(argv: list[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description="Long runs on a tiny model.")
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--tokens", type=int, default=200_000)
    parser.add_argument("--loads", type=int, default=50)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        path = write_llama(Path(folder) / "tiny.gguf")
        print(json.dumps({**talk(path, args.turns, args.tokens), **load_often(path, args.loads)}))


if __name__ == "__main__":
    main()
