"""The method: propose a draft, verify it in one decode, keep what the model itself would have said, learn, repeat."""

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from racer_local.answers import Step
from racer_local.detokenize import TextStream
from racer_local.draft_tree import ROOT, DraftTree
from racer_local.drafting.cost import StepCost
from racer_local.drafting.drafter import Drafter
from racer_local.drafting.policies import SWITCHED_OFF
from racer_local.drafting.successors import RowScan
from racer_local.errors import Cancelled, DecodeError, RacerError
from racer_local.kernels.verify import walk_greedy
from racer_local.settings import MAX_BUDGET
from racer_local.stats import GenerationStats
from racer_local.tokens import N_SOURCES, Source, Token

NO_NUMBERS = "the model's logits are not numbers; the file may be damaged"
LOOK_UP_EVERY = 8
"""Steps after which the time of a plain step is looked up anew."""
SOURCES = tuple(Source(bits) for bits in range(N_SOURCES))


class Verifier(Protocol):
    """A model with a cache, as `llama.engine.Engine` is one."""

    @property
    def room(self) -> int:
        """Tokens that one more decode may hold."""
        ...

    @property
    def n_past(self) -> int:
        """Tokens in the cache."""
        ...

    def prefill(self, tokens: Sequence[int], on_progress: Callable[[int, int], None] | None = None) -> int:
        """Make the cache hold exactly `tokens`; returns how many it held already."""
        ...

    def verify(self, root: int, tree: DraftTree) -> NDArray[np.float32]:
        """Logits after the root and after each node, float32[1 + n, V]."""
        ...

    def commit(self, root: int, tree: DraftTree, path: Sequence[int]) -> None:
        """Keep the root and the nodes of `path`, drop the rest."""
        ...


class Picker(Protocol):
    """A sampler with its own state, as `llama.sampling.Sampler` is one."""

    def pick(self, row: NDArray[np.float32]) -> int:
        """Pick the token after a node from its logits, float32[V]."""
        ...


@dataclass(frozen=True, slots=True)
class AnswerParts:
    """What an answer is made with.

    Attributes:
        model: Verifies drafts.
        drafter: Makes them.
        text: Releases tokens.
        picker: Picks tokens; None follows the arg-max.
        is_end: Whether a token ends the answer.
        scan: Scratch for the rows of a step.
        cost: Cost of decodes and yardstick of the speed-up, kept current by the loop.
        stop_asked: Whether the user wants the answer to end now.
        drafts_wanted: Whether the next step may draft.
    """

    model: Verifier
    drafter: Drafter
    text: TextStream
    picker: Picker | None
    is_end: Callable[[int], bool]
    scan: RowScan
    cost: StepCost
    stop_asked: Callable[[], bool] = lambda: False
    drafts_wanted: Callable[[], bool] = lambda: True


class Loop:
    """One answer in the making. Build it, then iterate over `steps()`.

    Between two steps everything is consistent: cache, drafter and statistics know exactly the committed tokens.

    Attributes:
        stats: Running totals.
    """

    def __init__(self, parts: AnswerParts, max_tokens: int | None) -> None:
        """Prepare an answer of at most `max_tokens` tokens; None goes on to an end token or the context's end."""
        self._parts = parts
        self._max_tokens = max_tokens
        self._n_picked = 0
        self._unaccounted = 0.0
        """Time that a step spent after its statistics were closed; the next one's propose pays for it."""
        self._plain_s: float | None = None
        self._picks = np.zeros(MAX_BUDGET, np.int32)
        self._path = np.zeros(MAX_BUDGET, np.int32)
        self.stats = GenerationStats()

    def steps(self, prompt: Sequence[int], on_prefill: Callable[[int, int], None] | None = None) -> Generator[Step]:
        """Answer a prompt of at least one token; the last step has a finish reason.

        Args:
            prompt: Token ids.
            on_prefill: Called during prefill with tokens done and tokens to do.

        Raises:
            ContextFullError: The prompt does not fit.
            DecodeError: The model failed. Steps given before stand.
        """
        assert len(prompt) > 0, "a prompt has at least one token"
        parts, stats, started = self._parts, self.stats, time.perf_counter()
        stats.prompt_tokens = len(prompt)
        try:
            # the prompt's last token is the first root: the first step decodes it together with a draft
            stats.cached_n = parts.model.prefill(prompt[:-1], on_prefill)
            parts.drafter.begin(prompt)
            stats.prompt_s = time.perf_counter() - started
            root = int(prompt[-1])
            while not parts.stop_asked():
                if self._max_tokens == 0:
                    yield self._last("length")
                    return
                step, root = self._step(root)
                yield step
                if step.finish_reason:
                    return
        except Cancelled:
            pass
        except RacerError:
            held = self._last(None)
            if held.tokens:
                yield held
            raise
        yield self._last("cancelled")

    def _step(self, root: int) -> tuple[Step, int]:
        """Propose, verify, cut, commit, learn. Returns the step and the next root."""
        parts, n_past, t0 = self._parts, self._parts.model.n_past, time.perf_counter() - self._unaccounted
        tree = parts.drafter.propose(self._limit())
        t1 = time.perf_counter()
        rows = parts.model.verify(root, tree)
        t2 = time.perf_counter()
        picks, path = self._walk(rows, tree)
        picks, released, finish = self._cut(picks, path, tree)
        path = path[: len(picks)]
        t3 = time.perf_counter()
        parts.model.commit(root, tree, path)
        parts.drafter.learn(root, tree, parts.scan, path, picks)
        t4 = time.perf_counter()
        if finish is None and parts.model.room == 0:
            finish = "context"
        if finish:
            released += parts.text.finish()
        n_plain = len(picks) + (finish == "stop" and not parts.text.stopped)  # an end token takes a decode as well
        self._count(n_past, tree, path, n_plain, released, (t0, t1, t2, t3, t4))
        step = Step(
            text="".join(t.text for t in released),
            tokens=tuple(released),
            tree=tree,
            path=tuple(path),
            n_committed=len(picks),
            stats=self.stats.snapshot(),
            finish_reason=finish,
            note=self._note(),
        )
        self._unaccounted = time.perf_counter() - t4
        return step, picks[-1] if picks else root

    def _limit(self) -> int:
        """Nodes that a draft may have: the cache must hold root and draft, and the last token needs no draft."""
        last = self._max_tokens is not None and self._max_tokens - self._n_picked <= 1
        return 0 if last or not self._parts.drafts_wanted() else self._parts.model.room - 1

    def _note(self) -> str:
        """Why nothing is drafted, empty while drafting is on."""
        return self._parts.drafter.note or ("" if self._parts.drafts_wanted() else SWITCHED_OFF)

    def _walk(self, rows: NDArray[np.float32], tree: DraftTree) -> tuple[list[int], list[int]]:
        """Pick one token per visited node, from the root down, as long as the draft holds what was picked.

        Returns:
            Picked tokens in order, and the accepted nodes: node i holds pick i, the last pick is in no draft.
        """
        parts = self._parts
        parts.scan.read(rows)
        if parts.picker is None:
            n = walk_greedy(parts.scan.ids, tree.token, tree.parent, self._picks, self._path)
            picks = self._picks[:n].tolist()
            if picks[-1] < 0:
                raise DecodeError(NO_NUMBERS)
            return picks, self._path[: n - 1].tolist()
        children = {
            (parent, token): node
            for node, (parent, token) in enumerate(zip(tree.parent.tolist(), tree.token.tolist(), strict=True))
        }
        picks, path = [], []
        node: int | None = ROOT
        while node is not None:
            if parts.scan.ids[node + 1, 0] < 0:
                raise DecodeError(NO_NUMBERS)
            picks.append(parts.picker.pick(rows[node + 1]))
            if parts.is_end(picks[-1]):
                break
            node = children.get((node, picks[-1]))
            if node is not None:
                path.append(node)
        return picks, path

    def _cut(self, picks: list[int], path: list[int], tree: DraftTree) -> tuple[list[int], list[Token], str | None]:
        """Pass picked tokens one at a time through end token, stop string and bound; what follows is dropped.

        Returns:
            The tokens that stand, an end token not among them; those that are released; the finish reason, if any.
        """
        parts, step = self._parts, self.stats.steps + 1
        released: list[Token] = []
        for i, pick in enumerate(picks):
            if parts.is_end(pick):
                return picks[:i], released, "stop"
            if i < len(path):
                node = path[i]
                token = Token(pick, "", SOURCES[tree.source[node]], int(tree.match_len[node]), i + 1, step)
            else:
                token = Token(pick, "", Source.MODEL, 0, 0, step)
            released += parts.text.push(token)
            self._n_picked += 1
            if parts.text.stopped:
                return picks[: i + 1], released, "stop"
            if self._n_picked == self._max_tokens:
                return picks[: i + 1], released, "length"
        return picks, released, None

    def _count(
        self,
        n_past: int,
        tree: DraftTree,
        path: list[int],
        n_plain: int,
        released: list[Token],
        times: tuple[float, ...],
    ) -> None:
        stats, (t0, t1, t2, t3, t4) = self.stats, times
        stats.steps += 1
        stats.propose_s += t1 - t0
        stats.decode_s += t2 - t1
        stats.verify_s += t3 - t2
        stats.commit_s += t4 - t3
        stats.predicted_s += t4 - t0
        cost = self._parts.cost
        cost.observe(len(tree) + 1, n_past, t4 - t0)
        if len(tree):
            stats.drafts += 1
            stats.draft_n += len(tree)
            stats.accepted_hist[len(path)] += 1
        if self._plain_s is None or stats.steps % LOOK_UP_EVERY == 0:
            self._plain_s = cost.plain_s(n_past)
        if self._plain_s is not None:
            stats.weighed_s += t4 - t0
            stats.plain_s += self._plain_s * n_plain
        stats.count(released)

    def _last(self, finish: str | None) -> Step:
        """A step without a decode: what was held back, and why the answer ends."""
        released = tuple(self._parts.text.finish())
        self.stats.count(released)
        return Step(
            text="".join(t.text for t in released),
            tokens=released,
            tree=DraftTree.empty(),
            path=(),
            n_committed=0,
            stats=self.stats.snapshot(),
            finish_reason=finish,
            note=self._note(),
        )
