"""Layout of the draft that the kernels of all policies fill."""

D_TOKEN, D_PARENT, D_DEPTH, D_SOURCE, D_MATCH, D_CHILD, D_SIBLING, D_STATE, Q_NODE, Q_BREADTH = range(10)
"""Rows of a draft array int32[DRAFT_HEIGHT, MAX_BUDGET + 1]. Node i is column i; the last column is the root's.

The first five rows are the result, in the order of DraftTree's attributes. The others are of use only while a draft
is made: D_CHILD and D_SIBLING hold node + 1 (0: none), lists in which the paper's rule finds a token that is drafted
already; D_STATE is the trie node of the longest n-gram that a node's path ends with, for expected gain; Q_NODE and
Q_BREADTH are the queue of the logits tree.
"""
DRAFT_HEIGHT = 10

HEAP_SIZE = 2048
"""Candidates of one draft at most: what does not fit is not drafted."""

RETRIEVAL_BIT, LOGITS_BIT = 1, 2
"""Bits of D_SOURCE, those of `Source`."""
