"""Step tree panel: the last draft as a tree, what was accepted bold, the rest dim."""

from collections.abc import Callable, Sequence

from textual.app import ComposeResult
from textual.content import Content

from racer_local.draft_tree import ROOT, DraftTree
from racer_local.terminal_text import one_line, token_text
from racer_local.tokens import Source

from ..sources import STYLES
from .panel import Panel, PanelScroll
from .steady_text import SteadyText

ACCEPTED, REJECTED = "✓ ", "  "


class StepTree(Panel):
    """The last draft. Draws only while it is shown."""

    SCOPED_CSS = False  # as in `Panel`
    DEFAULT_CSS = """
    StepTree {
        & > .head { color: $text-muted; height: auto; max-height: 3; }
        & > PanelScroll { height: 1fr; scrollbar-size-vertical: 1; }
    }
    Screen.-wide StepTree > .head { max-height: 5; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._tree = DraftTree.empty()
        self._path: tuple[int, ...] = ()
        self._step = 0
        self._why: Callable[[], str] | None = None
        self._mode = ""
        self._piece: Callable[[int], bytes] | None = None

    def compose(self) -> ComposeResult:
        """A heading and the nodes."""
        yield SteadyText(classes="head")
        with PanelScroll():
            yield SteadyText(classes="nodes")

    def set_model(self, piece: Callable[[int], bytes], mode: str) -> None:
        """Take up a loaded model.

        Args:
            piece: Bytes of a token.
            mode: What drafts it verifies and why, for people.
        """
        self._piece, self._mode = piece, mode
        self.draw()

    def forget_model(self) -> None:
        """There is no model: the draft that was shown means nothing to the next one."""
        self._piece, self._mode, self._why = None, "", None
        self._tree, self._path = DraftTree.empty(), ()
        if self.is_mounted:
            self.query_one(".nodes", SteadyText).set(Content(""))
        self.draw()

    def show(self, tree: DraftTree, path: tuple[int, ...], step: int, why: Callable[[], str] | None = None) -> None:
        """Show the draft of a step with its accepted nodes.

        Args:
            tree: The draft.
            path: Its accepted nodes.
            step: Number of the step.
            why: Says why the draft was made, one line; asked when it is drawn.
        """
        self._tree, self._path, self._step, self._why = tree, path, step, why
        self.draw()

    def draw(self) -> None:
        """See `Panel`."""
        if not self.display:
            return
        head = "no draft yet"
        if len(self._tree):
            head = f"step {self._step}: {len(self._tree)} drafted, {len(self._path)} accepted"
        reason = self._why() if self._why is not None and len(self._tree) else ""
        lines = [f"{head} · {self._mode}" if self._mode else head, reason]
        self.query_one(".head", SteadyText).set(Content("\n".join(one_line(line) for line in lines if line)))
        if self._piece is not None:
            self.query_one(".nodes", SteadyText).set(tree_content(self._tree, self._path, self._piece))


def tree_content(tree: DraftTree, path: Sequence[int], piece: Callable[[int], bytes]) -> Content:
    """A draft as lines, one a node: token, source, matched tokens, believed chance.

    Only siblings are indented, so that a long path stays within a narrow screen. The accepted one stands first.

    Args:
        tree: The draft.
        path: Its accepted nodes.
        piece: Bytes of a token.
    """
    children: dict[int, list[int]] = {}
    for node, parent in enumerate(tree.parent.tolist()):
        children.setdefault(parent, []).append(node)
    accepted = set(path)
    for siblings in children.values():
        siblings.sort(key=lambda node: node not in accepted)
    lines: list[Content] = []
    todo = [(node, "") for node in reversed(children.get(ROOT, []))]
    while todo:
        node, indent = todo.pop()
        siblings = children[int(tree.parent[node])]
        if len(siblings) == 1:
            branch, below = "↳ ", indent
        elif node == siblings[-1]:
            branch, below = "└ ", f"{indent}  "
        else:
            branch, below = "├ ", f"{indent}│ "
        lines.append(_line(tree, node, indent + branch, node in accepted, piece))
        todo += [(child, below) for child in reversed(children.get(node, []))]
    return Content("\n").join(lines)


def _line(tree: DraftTree, node: int, lead: str, accepted: bool, piece: Callable[[int], bytes]) -> Content:
    label = Source(int(tree.source[node])).label
    known = f" {label}"
    if tree.match_len[node] > 0:
        known += f" match {tree.match_len[node]}"
    if tree.p[node] == tree.p[node]:
        known += f" {tree.p[node]:.0%}"
    return Content.assemble(
        ACCEPTED if accepted else REJECTED, lead, (token_text(piece(int(tree.token[node]))), STYLES[label]), known
    ).stylize("bold" if accepted else "dim")
