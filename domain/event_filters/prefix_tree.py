"""A radix tree: it finds, among many texts, the prefixes of a given text in one walk along it."""

from __future__ import annotations

from typing import Generic, TypeVar

V = TypeVar("V")


class _Branch(Generic[V]):
    """A node.  `label` leads here from the node above; `value` belongs to the text that ends here."""

    __slots__ = ("branches", "label", "value")

    def __init__(self, label: str) -> None:
        self.label = label
        self.value: V | None = None
        self.branches: dict[str, _Branch[V]] = {}


class PrefixTree(Generic[V]):
    """Non-empty texts with a value each.  Size and cost follow the texts' lengths, not their number."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: _Branch[V] = _Branch("")

    def __bool__(self) -> bool:
        return bool(self._root.branches)

    def get(self, text: str) -> V | None:
        """Return the value of exactly this text."""
        branch, place = self._root, 0
        while place < len(text):
            below = branch.branches.get(text[place])
            if below is None or not text.startswith(below.label, place):
                return None
            branch, place = below, place + len(below.label)
        return branch.value

    def setdefault(self, text: str, default: V) -> V:
        """Return the value of the text; this one if it has none yet."""
        branch, place = self._root, 0
        while place < len(text):
            below = branch.branches.get(text[place])
            if below is None:
                below = branch.branches[text[place]] = _Branch(text[place:])
            common = _common(below.label, text, place)
            if common < len(below.label):
                below = _split(branch, below, common)
            branch, place = below, place + common
        if branch.value is None:
            branch.value = default
        return branch.value

    def pop(self, text: str, default: None) -> V | None:
        """Remove the text, if it exists, and return its value."""
        path, branch, place = [self._root], self._root, 0
        while place < len(text):
            below = branch.branches.get(text[place])
            if below is None or not text.startswith(below.label, place):
                return default
            branch, place = below, place + len(below.label)
            path.append(branch)
        value, branch.value = branch.value, None
        if len(path) > 1 and not branch.branches:
            del path[-2].branches[branch.label[0]]
            branch = path[-2]
        if branch is not self._root and branch.value is None and len(branch.branches) == 1:
            _join(branch)
        return value

    def found(self, text: str) -> list[V]:
        """Return the values of all texts that this one begins with, the shortest first."""
        values: list[V] = []
        branch, place = self._root, 0
        while place < len(text):
            below = branch.branches.get(text[place])
            if below is None or not text.startswith(below.label, place):
                break
            branch, place = below, place + len(below.label)
            if branch.value is not None:
                values.append(branch.value)
        return values


def _common(label: str, text: str, place: int) -> int:
    """Return the number of the label's characters that the text has at the place."""
    if text.startswith(label, place):
        return len(label)
    count = 0
    while place + count < len(text) and text[place + count] == label[count]:
        count += 1
    return count


def _split(above: _Branch[V], branch: _Branch[V], count: int) -> _Branch[V]:
    """Insert a branch for the first `count` characters."""
    between: _Branch[V] = _Branch(branch.label[:count])
    branch.label = branch.label[count:]
    between.branches[branch.label[0]] = branch
    above.branches[between.label[0]] = between
    return between


def _join(branch: _Branch[V]) -> None:
    """Merge a branch with the only one below it."""
    (below,) = branch.branches.values()
    branch.label += below.label
    branch.value = below.value
    branch.branches = below.branches
