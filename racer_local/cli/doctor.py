"""An honest report on a model on this machine: how it would be drafted, what that costs, what would make it faster."""

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from racer_local import cpus, locations
from racer_local.api import Racer
from racer_local.llama import devices, library
from racer_local.settings import MAX_BUDGET, default_threads

SHOWN_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64)
STEEP = 1.9
"""Time of two tokens over one from which on drafting hardly ever pays."""
GPU_TRACES = ("/dev/nvidia0", "/dev/kfd", "/dev/dri/renderD128", "/proc/driver/nvidia/version")
"""Files that exist where a GPU has a driver on Linux."""
PACKAGES = ("racer-local", "llama-cpp-python", "numba", "numpy", "textual")
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Report:
    """What was found.

    Attributes:
        facts: By heading; a heading's facts by name, each a number, a text or a list.
        advice: What would make it faster, a line each; empty where nothing is known to.
    """

    facts: dict[str, dict[str, Any]]
    advice: list[str]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**self.facts, "advice": self.advice}

    def text(self) -> str:
        """For people."""
        lines = []
        for heading, facts in self.facts.items():
            lines.append(heading)
            for name, value in facts.items():
                shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
                lines.append(f"  {name:22} {shown}")
        lines.append("what would make it faster")
        lines += [f"  {line}" for line in self.advice or ["nothing that is known"]]
        return "\n".join(lines)


def examine(racer: Racer) -> Report:
    """Look at a loaded model; measures what decodes cost where that is not known yet, which empties the cache."""
    model, engine = racer.model, racer.engine
    drafting = racer.drafting()
    draft: dict[str, Any] = {
        "model can verify": f"{racer.mode.name}: {racer.mode.reason}",
        "policy": drafting["policy"],
        "mode": drafting["mode"],
        "tokens in one decode": f"up to {drafting['budget']}",
        "n-gram nodes": f"up to {racer.draft.automaton_nodes(engine.n_ctx)}",
        "successor table MiB": round(model.n_vocab * racer.draft.breadth * 8 / MIB, 1),
    }
    facts = {
        "model": {
            "file": str(model.path),
            "name": model.name or "none in the file",
            "MiB": round(model.file_bytes / MIB, 1),
            "kind": model.description,
            "memory": _memory_kind(racer),
            "layers": model.n_layers,
            "vocabulary": model.n_vocab,
            "chat template": racer.chat_format.note or "the file's own",
        },
        "context": {
            "tokens": engine.n_ctx,
            "trained for": model.n_ctx_train,
            **{f"{name} MiB": round(size, 2) for name, size in engine.buffers.items()},
            "flash attention": "on" if engine.flash_attn else "off",
        },
        "device": {
            "layers on": model.device,
            "threads": engine.n_threads,
            "cpus": default_threads(),
            "cpus counted": cpus.usable().reason,
            "build supports a GPU": library.supports_gpu(),
            "devices": [f"{d.name}: {d.description}" for d in devices.all_devices()],
            "weights rearranged": model.repacked,
            "build": library.system_info(),
        },
        "drafting": draft,
        "cost of a decode": _costs(racer),
        "paths": {name: str(path) for name, path in locations.all_paths().items()},
        "versions": {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}},
    }
    return Report(facts, [*_advice(racer)])


def _memory_kind(racer: Racer) -> str:
    model = racer.model
    if model.is_recurrent:
        return f"recurrent or hybrid, {racer.engine.n_rollback} tokens can be taken back"
    if model.sliding_window:
        return f"attention, partly over a window of {model.sliding_window} tokens"
    return "attention with several position axes" if model.is_mrope else "attention"


def _costs(racer: Racer) -> dict[str, Any]:
    if racer.mode.name == "off":
        return {"not measured": "this model cannot verify drafts"}
    cost = racer.step_cost()
    times = cost.times(0)
    plain = cost.plain_s(0)
    out: dict[str, Any] = {"one token ms": round(plain * 1e3, 2)} if plain is not None else {}
    most = racer.mode.max_depth + 1 if racer.mode.max_depth is not None else MAX_BUDGET
    out |= {f"{n} tokens": f"{times[n]:.2f} of one" for n in SHOWN_SIZES[1:] if n <= most}
    return out


def _advice(racer: Racer) -> Iterator[str]:
    model, engine = racer.model, racer.engine
    if not library.supports_gpu() and _has_gpu():
        yield (
            "this machine seems to have a GPU that llama.cpp was built without: "
            "rebuild it, see 'For a GPU' in the README"
        )
    elif library.supports_gpu() and model.gpu_layers == 0:
        yield "no layer is on the GPU: leave out -ngl, or raise it"
    if engine.n_threads < default_threads() and model.gpu_layers == 0:
        yield f"{engine.n_threads} of {default_threads()} CPUs are used: leave out -t"
    if model.gpu_layers == 0 and engine.flash_attn:
        yield "flash attention is on; on a CPU it makes drafts dear at long contexts: leave out -fa on"
    if not model.repacked:
        yield (
            "llama.cpp's AMX kernels do not work in this build (a compiler's fault), so weights are not rearranged: "
            "rebuild llama-cpp-python with another compiler (GCC 13 or newer, or Clang)"
        )
    if racer.mode.name == "off":
        yield f"no drafting: {racer.mode.reason}; another model of this size may gain from it"
    elif racer.step_cost().times(0)[2] > STEEP:
        yield (
            "two tokens take almost twice the time of one here, so drafts rarely pay; another file type may have "
            "cheaper batches (compare with: racer-bench cost)"
        )
    if model.n_ctx_train and engine.n_ctx > model.n_ctx_train:
        yield f"the context is longer than the {model.n_ctx_train} tokens that the model was trained for: lower -c"


def _has_gpu() -> bool:
    return any(Path(trace).exists() for trace in GPU_TRACES) or (
        platform.system() == "Darwin" and platform.machine() == "arm64"
    )
