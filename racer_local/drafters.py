"""The drafters of a loaded model: one for each configuration, made when first asked for, over shared memories."""

from dataclasses import replace

from racer_local.drafting.cost import StepCost
from racer_local.drafting.drafter import Drafter
from racer_local.drafting.memory import Memory
from racer_local.drafting.policies import OFF_POLICY, POLICIES, DraftConfig, make_drafter, make_memory, weighs_costs
from racer_local.drafting.successors import RowScan
from racer_local.errors import Cancelled
from racer_local.learned import Learned
from racer_local.llama import decode_timing
from racer_local.llama.engine import Engine


class Drafters:
    """Makes drafters and keeps them. Those of equal shape share one memory of the chat."""

    def __init__(self, engine: Engine, learned: Learned) -> None:
        """Begin with nothing but what earlier starts have learned."""
        self._engine = engine
        self._learned = learned
        self._cost_checked = False
        self._memories: dict[tuple[int, int, int | None], Memory] = {}
        self._drafters: dict[DraftConfig, Drafter] = {}
        self._scans: dict[int, RowScan] = {}

    def clear(self) -> None:
        """Forget every chat."""
        self._memories.clear()
        self._drafters.clear()

    @property
    def n_nodes(self) -> int:
        """Nodes in use of the n-gram automata."""
        return sum(memory.automaton.n_nodes for memory in self._memories.values())

    def scan(self, breadth: int) -> RowScan:
        """Scratch for the rows of a step."""
        return self._scans.setdefault(breadth, RowScan(breadth))

    def step_cost(self) -> StepCost:
        """What decodes cost; measured, or an earlier start's checked, when first asked for, which empties the cache.

        Raises:
            Cancelled: The measurement was stopped; the next call makes it anew.
        """
        cost = self._learned.cost
        if not self._cost_checked:
            if not (cost.is_measured and decode_timing.still_holds(self._engine, cost.times(decode_timing.CONTEXT))):
                cost.set_curve(decode_timing.measure(self._engine), decode_timing.CONTEXT)
            self._cost_checked = True
        return cost

    def get(self, config: DraftConfig) -> Drafter:
        """The drafter for a configuration. If the measurement that it needs first is cancelled, one that never drafts:
        the answer ends before its first step.
        """
        try:
            return self._get(config)
        except Cancelled:
            return make_drafter(replace(config, policy=OFF_POLICY), self._engine.mode, None)

    def _get(self, config: DraftConfig) -> Drafter:
        mode = self._engine.mode
        if config not in self._drafters:
            cost = self.step_cost() if weighs_costs(config, mode) else None
            self._drafters[config] = make_drafter(config, mode, self._memory(config), cost, self._learned.beliefs)
        return self._drafters[config]

    def _memory(self, config: DraftConfig) -> Memory | None:
        """The memory for a configuration, None where its policy draws on none."""
        if not POLICIES[config.policy].has_memory:
            return None
        engine, shape = self._engine, (config.max_ngram, config.breadth, config.max_nodes)
        if shape not in self._memories:
            self._memories[shape] = make_memory(config, engine.model.n_vocab, engine.n_ctx)
        return self._memories[shape]
