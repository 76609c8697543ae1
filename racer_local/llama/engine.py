"""One llama.cpp context of ours: prefill, verify a draft tree in one decode, keep the accepted path, drop the rest.

The cache always holds exactly `tokens`. The root of a draft, the last committed token, is not in it: it is decoded
together with the draft that follows it.

Sequence 0 is the trunk and holds the whole cache. A tree with L leaves uses sequences 0..L-1; before a decode they are
brought up to the trunk, copying only what they miss. After it, what is deeper than the accepted path is removed from
all sequences at once, and the rest of the step from those that do not follow the path; the trunk gets the path if it
was not on it. `seq_rm` and `seq_cp` move no data, but each looks at every cell of the cache.

Where attention has a sliding window, llama.cpp gives cells that have left the window to new tokens, even in a cache of
full size, if one sequence alone holds them. Then the cache cannot be cut to before them, and sequences no longer begin
alike, which a tree needs. So sequence 1 holds everything as well there, from before each decode.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from racer_local.draft_tree import DraftMode, DraftTree
from racer_local.errors import Cancelled, ContextFullError, DecodeError, ModelError, UsageError
from racer_local.kernels.abort import abort_requested
from racer_local.kernels.batch import BRANCHES, MALFORMED, OUTSIDE, tree_fault
from racer_local.llama import library
from racer_local.llama.batch import Batch
from racer_local.llama.handle import Handle
from racer_local.llama.model import Model, check_tokens
from racer_local.llama.native_call import wait_for
from racer_local.sequences import common_prefix
from racer_local.settings import DEFAULT_N_CTX, MAX_BUDGET, MIN_N_CTX, ModelParams, default_threads

ROLLBACK_SLOTS = 8
"""State snapshots asked for on recurrent and hybrid models: the longest chain that can be taken back."""

WRONG_ORDER = "commit follows verify, and verify the commit before it"
TREE_FAULTS = {
    OUTSIDE: "a draft's tokens must be in the vocabulary",
    MALFORMED: "a draft's parents must stand before their children, each one deeper than its parent",
    BRANCHES: "this model can verify a single path only, not a tree",
}
DECODE_NO_ROOM = 1
DECODE_ABORTED = 2

QUANTISED_BLOCK = 32
"""Numbers that a quantised cache stores together."""
GGML_TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "bf16": 30}


class Engine:
    """Owner of a `llama_context`.

    Attributes:
        model: The model; it must outlive the engine.
        tokens: Token ids in the cache.
        n_ctx: Tokens that the cache can hold.
        n_threads: CPU threads of every decode.
        flash_attn: Whether flash attention was asked for.
        buffers: Size of the context's buffers in MiB, by kind.
        max_nodes: Tokens that a draft may have: state snapshots of recurrent memory bound it.
        mode: What drafts the model can verify; set by `probe.find_mode`.
    """

    def __init__(self, model: Model, params: ModelParams) -> None:
        """Create a context.

        Raises:
            ModelError: llama.cpp cannot create it, for instance for want of memory.
        """
        self.model = model
        self.tokens: list[int] = []
        self.mode = DraftMode("off", "not probed")
        self.n_threads = params.n_threads or default_threads()
        self.flash_attn = params.flash_attn if params.flash_attn is not None else _wants_flash(model, params)
        n_seq = 1 if model.is_recurrent or model.is_mrope else MAX_BUDGET
        wanted = params.n_ctx or max(MIN_N_CTX, min(DEFAULT_N_CTX, model.n_ctx_train or DEFAULT_N_CTX))
        cparams = llama_cpp.llama_context_default_params()
        cparams.n_ctx = wanted
        cparams.n_batch = params.n_batch
        cparams.n_ubatch = params.n_batch
        cparams.n_seq_max = n_seq
        cparams.n_rs_seq = ROLLBACK_SLOTS if model.is_recurrent else 0
        cparams.n_outputs_max = MAX_BUDGET
        cparams.n_threads = cparams.n_threads_batch = self.n_threads
        cparams.flash_attn_type = _flash_type(model, enabled=self.flash_attn)
        cparams.type_k = GGML_TYPES[params.type_k]
        cparams.type_v = GGML_TYPES[params.type_v]
        cparams.kv_unified = True
        cparams.swa_full = True
        cparams.no_perf = True
        _check_cache_types(model, params)
        with model.handle:
            pointer, said, self.buffers = _create(model, cparams)
            if not pointer:
                raise ModelError(
                    f"cannot create a context of {wanted} tokens; try a smaller one with n_ctx / -c"
                    + (f" ({said[0]})" if said else "")
                )
            self._context = Handle(pointer, llama_cpp.llama_free, within=model.handle)
        try:
            self._memory: Any = llama_cpp.llama_get_memory(pointer)
            """Good while the context is held."""
            self.n_ctx = min(wanted, llama_cpp.llama_n_ctx(pointer))  # llama.cpp rounds up
            self.n_rollback = llama_cpp.llama_n_rs_seq(pointer)
            self._n_batch = llama_cpp.llama_n_batch(pointer)
            self._batch = Batch(self._n_batch, n_seq)
            self._synced = [0] * n_seq
            self._n_holders = min(n_seq, 2) if model.sliding_window else 1
            self._is_recurrent = model.is_recurrent
            self._every_seq = 0 if model.is_recurrent else -1  # recurrent memory takes no -1 for a part of its tokens
            self.max_nodes = self.n_rollback if model.is_recurrent else MAX_BUDGET - 1
            self._pending = 0
            self._n_seq_used = 0
            self._rows: NDArray[np.float32] | None = None
            self._rows_at = 0
            self._stop = np.zeros(1, np.uint8)
            address: Any = abort_requested.address
            self._callback = ctypes.cast(address, llama_cpp.ggml_abort_callback)
            llama_cpp.llama_set_abort_callback(pointer, self._callback, ctypes.c_void_p(self._stop.ctypes.data))
        except BaseException:
            self._context.close()
            raise

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._context.is_closed

    def close(self) -> None:
        """Free the context; a decode in progress ends first, in its own thread. Closing twice is allowed."""
        self.request_stop()
        self._context.close()

    def in_use(self) -> Handle:
        """A context manager that keeps logits readable: what `close` frees is freed after it.

        Raises:
            UsageError: When entered, if the engine is closed.
        """
        return self._context

    def request_stop(self) -> None:
        """Make the decode in progress end early with `Cancelled`; may be called from any thread."""
        self._stop[0] = 1

    def clear_stop(self) -> None:
        """Forget an earlier `request_stop`."""
        self._stop[0] = 0

    @property
    def stop_requested(self) -> bool:
        """Whether `request_stop` was called since `clear_stop`."""
        return bool(self._stop[0])

    @property
    def n_past(self) -> int:
        """Tokens in the cache."""
        return len(self.tokens)

    def clear(self) -> None:
        """Empty the cache."""
        with self._context:
            self._clear()

    def _clear(self) -> None:
        llama_cpp.llama_memory_clear(self._memory, False)
        self.tokens.clear()
        self._pending = 0
        self._synced = [0] * len(self._synced)

    def prefill(self, tokens: Sequence[int], on_progress: Callable[[int, int], None] | None = None) -> int:
        """Make the cache hold exactly `tokens`, decoding only what follows the longest common prefix.

        Args:
            tokens: Token ids, fewer than `n_ctx`.
            on_progress: Called after each chunk with tokens done and tokens to do.

        Returns:
            Number of tokens that were in the cache already.

        Raises:
            UsageError: A token id is not in the vocabulary, or the engine is closed.
            ContextFullError: They do not fit.
            Cancelled, DecodeError: The cache holds a prefix of `tokens`.
        """
        if len(tokens) >= self.n_ctx:
            raise ContextFullError(
                f"the prompt has {len(tokens) + 1} tokens and the context {self.n_ctx}; shorten it or use a larger -c"
            )
        check_tokens(tokens, self.model.n_vocab)
        with self._context:
            reused = self._cut(common_prefix(self.tokens, tokens))
        todo = np.asarray(tokens[reused:], np.int32)
        for start in range(0, len(todo), self._n_batch):
            chunk = todo[start : start + self._n_batch]
            with self._context as context:
                self._batch.set_prompt(chunk, self.n_past)
                self._bring_up(self._n_holders)
                self._decode(context, len(chunk))
                self.tokens.extend(chunk.tolist())
                self._synced[0] = self.n_past
                self._pending = 0
            if on_progress is not None:
                on_progress(start + len(chunk), len(todo))
        return reused

    def verify(self, root: int, tree: DraftTree) -> NDArray[np.float32]:
        """Decode the root and its draft. Follow with `commit`.

        Args:
            root: The last committed token.
            tree: Draft of at most `room - 1` nodes.

        Returns:
            float32[1 + n, V], logits after the root and after each node: a view that the next decode overwrites.

        Raises:
            UsageError: The engine is closed, or the draft is one that this model cannot verify.
            Cancelled, DecodeError: The cache is as it was before, or empty where the model's memory cannot be cut.
        """
        n = len(tree) + 1
        with self._context as context:
            if self._pending:
                raise UsageError(WRONG_ORDER)
            if n > self.room or len(tree) > self.max_nodes:
                raise UsageError(f"a draft may have {min(self.room - 1, self.max_nodes)} tokens here, not {len(tree)}")
            fault = tree_fault(root, tree.token, tree.parent, tree.depth, self.model.n_vocab, len(self._synced))
            if fault:
                raise UsageError(TREE_FAULTS[fault])
            self._n_seq_used = self._batch.set_tree(root, tree, self.n_past)
            self._bring_up(max(self._n_seq_used, self._n_holders))
            self._decode(context, n)
            return self._logits(context, n)

    def commit(self, root: int, tree: DraftTree, path: Sequence[int]) -> None:
        """Keep the root and the nodes of `path` of the tree just verified; drop everything else.

        Args:
            root: As given to `verify`.
            tree: As given to `verify`.
            path: Node indices from the root down.

        Raises:
            UsageError: The engine is closed.
            DecodeError: The model's memory cannot be rolled back; the cache is then empty.
        """
        with self._context:
            if self._pending != len(tree) + 1:
                raise UsageError(WRONG_ORDER)
            self._commit(root, tree, path)

    def _commit(self, root: int, tree: DraftTree, path: Sequence[int]) -> None:
        n_past, n_keep = self.n_past, self.n_past + 1 + len(path)
        memory, used = self._memory, self._n_seq_used
        # what is deeper than the path goes from all sequences at once
        kept = len(path) == len(tree) or llama_cpp.llama_memory_seq_rm(memory, self._every_seq, n_keep, -1)
        if not kept:
            self._clear()
            raise DecodeError("the model's memory refused to drop rejected tokens; turn drafting off for this model")
        # now the sequences of the path's last node hold exactly the path, and all hold the root
        end = path[-1] + 1 if path else 0
        winners = self._batch.seq[end, : self._batch.n_seq_id[end]].tolist()
        if len(winners) < used:
            for seq in set(range(used)).difference(winners):
                llama_cpp.llama_memory_seq_rm(memory, seq, n_past + 1, n_keep)
                self._synced[seq] = n_past + 1
        if winners[0] != 0:
            llama_cpp.llama_memory_seq_cp(memory, winners[0], 0, n_past + 1, n_keep)
            self._synced[0] = n_keep
        for seq in winners:
            self._synced[seq] = n_keep
        self.tokens.append(root)
        self.tokens.extend(tree.token[list(path)].tolist())
        self._pending = 0

    @property
    def room(self) -> int:
        """Tokens that one more decode may hold: root and draft."""
        return min(self.n_ctx - self.n_past, MAX_BUDGET)

    def _bring_up(self, n_seq: int) -> None:
        """Make the first `n_seq` sequences hold the whole cache."""
        for seq in range(1, n_seq):
            if self._synced[seq] < self.n_past:
                llama_cpp.llama_memory_seq_cp(self._memory, 0, seq, self._synced[seq], self.n_past)
                self._synced[seq] = self.n_past

    def _cut(self, n: int) -> int:
        """Shorten the cache to at most `n` tokens; returns its new length, 0 where memory cannot be cut.

        Cells of a step that was verified but never committed go as well.
        """
        if n < self.n_past or self._pending:
            if n > 0 and self._drop_from(n):
                del self.tokens[n:]
                self._synced = [min(s, n) for s in self._synced]
            else:
                self._clear()
            self._pending = 0
        return self.n_past

    def _drop_from(self, n: int) -> bool:
        """Remove all cells from position `n` on; False where the memory is such that this may not be done.

        Snapshots of a recurrent memory are good for tokens of the last decode but its first, so `commit` alone may go
        back by them. llama.cpp would go back further, to a snapshot of some earlier decode.
        """
        return not self._is_recurrent and llama_cpp.llama_memory_seq_rm(self._memory, -1, n, -1)

    def _decode(self, context: Any, n: int) -> None:
        """Decode the batch of `n` tokens. They count as pending from before the call, which an exception may follow."""
        if self._stop[0]:
            raise Cancelled("stopped")
        library.clear_log()
        self._pending = n
        result = llama_cpp.llama_decode(context, self._batch.struct)
        if result == 0:
            return
        # the library cleans up one sequence per token only, a tree needs all of them
        if not self._drop_from(self.n_past):
            self._clear()
        self._pending = 0
        if result == DECODE_ABORTED:
            raise Cancelled("stopped")
        said = " ".join(" ".join(library.logged_errors()).split()) or f"code {result}"
        if result == DECODE_NO_ROOM:
            raise ContextFullError(f"no room left in the context of {self.n_ctx} tokens")
        raise DecodeError(f"llama.cpp could not decode: {said}")

    def _logits(self, context: Any, n: int) -> NDArray[np.float32]:
        pointer = llama_cpp.llama_get_logits(context)
        address = ctypes.cast(pointer, ctypes.c_void_p).value
        if not address:
            raise DecodeError("the model gives no logits; it cannot write text")
        if self._rows is None or address != self._rows_at:
            # outputs are reserved for as many rows as there are sequences; one view per buffer, sliced per step
            self._rows = np.ctypeslib.as_array(pointer, shape=(MAX_BUDGET, self.model.n_vocab))
            self._rows_at = address
        return self._rows[:n]


def _create(model: Model, params: Any) -> tuple[Any, list[str], dict[str, float]]:
    """Create a context; returns its pointer, None where llama.cpp refuses, its errors, and the sizes of its buffers."""

    def work() -> tuple[Any, list[str], dict[str, float]]:
        library.clear_log()
        with model.handle as pointer:
            made = llama_cpp.llama_init_from_model(pointer, params)
        return made, library.logged_errors(), library.logged_sizes()

    def undo(made: tuple[Any, list[str], dict[str, float]]) -> None:
        if made[0]:
            llama_cpp.llama_free(made[0])

    return wait_for(work, undo)


def _wants_flash(model: Model, params: ModelParams) -> bool:
    return model.gpu_layers != 0 or params.type_v.startswith("q")


def _flash_type(model: Model, *, enabled: bool) -> int:
    if not enabled:
        return llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    # on a GPU llama.cpp itself knows whether the backend has the kernels
    return llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO if model.gpu_layers else llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED


def _check_cache_types(model: Model, params: ModelParams) -> None:
    """Raise UsageError where a quantised cache would end the process: its blocks must fit the heads."""
    head = model.head_size
    for name, kind in (("type_k", params.type_k), ("type_v", params.type_v)):
        if kind.startswith("q") and head % QUANTISED_BLOCK:
            raise UsageError(
                f"{name}={kind} needs attention heads of a multiple of {QUANTISED_BLOCK} numbers, "
                f"this model's have {head}; use f16"
            )
