"""The table of policies: it alone knows their names, and what it says of each is so."""

import ast

import pytest

from racer_local.draft_tree import DraftMode
from racer_local.drafting.cost import StepCost
from racer_local.drafting.policies import POLICIES, DraftConfig, describe, make_drafter, make_memory, weighs_costs
from racer_local.settings import MAX_BUDGET
from tests.fakes import is_chain
from tests.test_structure import sources

TREE = DraftMode("tree", "")
REPEATED = [1, 2, 3, 4, 5, 6] * 4 + [1, 2, 3]


def names_compared(text: str) -> list[str]:
    """Comparisons of a policy or of what the user said of drafting with a text that is the name of a policy."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            said = ast.unparse(node)
            words = {c.value for c in ast.walk(node) if isinstance(c, ast.Constant) and isinstance(c.value, str)}
            if words & set(POLICIES) and ("policy" in said or ".draft" in said):
                found.append(said)
    return found


@pytest.mark.parametrize("module", sources())
def test_no_module_compares_names_of_policies(module: str) -> None:
    assert names_compared(sources()[module].read_text("utf-8")) == []


def test_a_comparison_is_found() -> None:
    assert names_compared('if config.policy == "off":\n    pass')
    assert names_compared('x = args.draft in ("auto", "off")')
    assert not names_compared('if mode.name == "off":\n    pass')


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_needs_what_the_table_says(name: str) -> None:
    policy, config = POLICIES[name], DraftConfig(policy=name)
    memory = make_memory(config, 50, 256) if policy.has_memory else None
    cost = StepCost({1: 1.0, 2: 1.001, 64: 1.02}) if policy.weighs_costs else None
    assert weighs_costs(config, TREE) == policy.weighs_costs
    drafter = make_drafter(config, TREE, memory, cost)
    drafter.begin(REPEATED)
    tree = drafter.propose(MAX_BUDGET - 1)
    assert bool(drafter.note) == (not policy.drafts)
    assert not len(tree) or policy.drafts
    assert not policy.single_path or (len(tree) and is_chain(tree))
    assert (config.node_limit == MAX_BUDGET - 1) == policy.chooses_budget
    assert describe(config, TREE)["mode"] == ("off" if not policy.drafts else "chain" if policy.single_path else "tree")


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_without_its_needs_is_refused(name: str) -> None:
    policy, config = POLICIES[name], DraftConfig(policy=name)
    if policy.has_memory:
        with pytest.raises(AssertionError, match=f"{name} draws on a memory"):
            make_drafter(config, TREE, None)
    if policy.weighs_costs:
        with pytest.raises(AssertionError, match=f"{name} weighs costs"):
            make_drafter(config, TREE, make_memory(config, 50, 256))
