"""Faster local language models: RACER drafts over llama.cpp, nothing trained, the same answers.

Names are loaded on first use, so that importing the package costs nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from racer_local.answers import Completion, Step
    from racer_local.api import Racer
    from racer_local.draft_tree import DraftTree
    from racer_local.drafting.policies import DraftConfig
    from racer_local.errors import ContextFullError, DecodeError, ModelError, RacerError, UsageError
    from racer_local.settings import ModelParams, SamplingParams
    from racer_local.stats import GenerationStats
    from racer_local.tokens import Source, Token

__all__ = [
    "Completion",
    "ContextFullError",
    "DecodeError",
    "DraftConfig",
    "DraftTree",
    "GenerationStats",
    "ModelError",
    "ModelParams",
    "Racer",
    "RacerError",
    "SamplingParams",
    "Source",
    "Step",
    "Token",
    "UsageError",
]

_HOME = {
    "Racer": "api",
    "GenerationStats": "stats",
    **dict.fromkeys(("ContextFullError", "DecodeError", "ModelError", "RacerError", "UsageError"), "errors"),
    "DraftTree": "draft_tree",
    **dict.fromkeys(("Source", "Token"), "tokens"),
    **dict.fromkeys(("Completion", "Step"), "answers"),
    "DraftConfig": "drafting.policies",
    **dict.fromkeys(("ModelParams", "SamplingParams"), "settings"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"racer_local.{_HOME[name]}"), name)
