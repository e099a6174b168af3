"""Topic exchanges: patterns of words, where `*` stands for one word and `#` for any number of them, even none.

Patterns without wildcards are found by the whole key.  The others form a trie, walked once from word to word with all
nodes that are possible so far.  The cost of a key is its words times those nodes, however the wildcards lie, and no
node is visited twice for a word.  For that, runs of wildcards are put in one order (`#.*.#` becomes `*.#`), so that a
`#` is followed by a word or by nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from entrepot.domain.exchanges.binding import Binding
from entrepot.domain.exchanges.table import Destinations, DirectTable, RoutedMessage

ONE_WORD: Final = "*"
ANY_WORDS: Final = "#"


def pattern_words(pattern: str) -> Sequence[str]:
    """Return the words of a pattern with each run of wildcards normalised: equivalent patterns become equal."""
    words: list[str] = []
    pending = False  # True if the current run of wildcards has a `#`
    for word in pattern.split(".") if pattern else ():
        if word == ANY_WORDS:
            pending = True
            continue
        if word != ONE_WORD and pending:
            words.append(ANY_WORDS)
            pending = False
        words.append(word)
    if pending:
        words.append(ANY_WORDS)
    return words


def has_wildcards(pattern: str) -> bool:
    """True if the pattern has a wildcard word; `a*` is a plain word."""
    if ONE_WORD not in pattern and ANY_WORDS not in pattern:
        return False
    words = pattern.split(".")
    return ONE_WORD in words or ANY_WORDS in words


class _Node:
    """A node of the trie.  `any_words` is the node after a `#`: once reached it stays possible to the end."""

    __slots__ = ("any_words", "children", "destinations", "one_word")

    def __init__(self) -> None:
        self.children: dict[str, _Node] | None = None
        self.one_word: _Node | None = None
        self.any_words: _Node | None = None
        self.destinations: Destinations | None = None

    def next(self, word: str) -> _Node | None:
        """Return the node after a word of a pattern."""
        if word == ONE_WORD:
            return self.one_word
        if word == ANY_WORDS:
            return self.any_words
        return None if self.children is None else self.children.get(word)

    def grow(self, word: str) -> _Node:
        node = _Node()
        if word == ONE_WORD:
            self.one_word = node
        elif word == ANY_WORDS:
            self.any_words = node
        else:
            if self.children is None:
                self.children = {}
            self.children[word] = node
        return node

    def prune(self, word: str) -> None:
        if word == ONE_WORD:
            self.one_word = None
        elif word == ANY_WORDS:
            self.any_words = None
        elif self.children is not None:
            del self.children[word]
            self.children = self.children or None

    @property
    def is_empty(self) -> bool:
        return self.children is None and self.one_word is None and self.any_words is None and self.destinations is None


class TopicTable(DirectTable):
    """Bindings by pattern; one without wildcards is found as in a direct exchange."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        super().__init__()
        self._root = _Node()

    def add(self, binding: Binding) -> None:
        pattern = binding.routing_key
        if not has_wildcards(pattern):
            super().add(binding)
            return
        node = self._root
        for word in pattern_words(pattern):
            node = node.next(word) or node.grow(word)
        if node.destinations is None:
            node.destinations = Destinations()
        node.destinations.add(binding)

    def remove(self, binding: Binding) -> None:
        pattern = binding.routing_key
        if not has_wildcards(pattern):
            super().remove(binding)
            return
        path: list[tuple[_Node, str]] = []
        node = self._root
        for word in pattern_words(pattern):
            path.append((node, word))
            child = node.next(word)
            assert child is not None, "taken off without having been added"
            node = child
        assert node.destinations is not None, "taken off without having been added"
        if node.destinations.remove(binding):
            node.destinations = None
        for parent, word in reversed(path):
            if not node.is_empty:
                break
            parent.prune(word)
            node = parent

    def match(self, message: RoutedMessage) -> list[Destinations]:
        by_key = self._by_key
        found = [by_key[key] for key in message.routing_keys if key in by_key]
        if not self._root.is_empty:
            for words in message.words():
                found += _matching(self._root, words)
        return found


def _matching(root: _Node, words: Sequence[str]) -> Iterator[Destinations]:
    """Yield the destinations of all patterns in the trie that the words match."""
    nodes = [root]
    lasting: dict[_Node, None] = {}  # the nodes after a `#`
    if root.any_words is not None:
        lasting[root.any_words] = None
    for word in words:
        following: list[_Node] = []
        for node in nodes:
            children = node.children
            if children is not None and (child := children.get(word)) is not None:
                following.append(child)
            if (child := node.one_word) is not None:
                following.append(child)
        for node in lasting:
            children = node.children
            if children is not None and (child := children.get(word)) is not None:
                following.append(child)
        for node in following:
            if (child := node.any_words) is not None:
                lasting[child] = None
        nodes = following
        if not nodes and not lasting:
            return
    for node in nodes:
        if node.destinations is not None:
            yield node.destinations
    for node in lasting:
        if node.destinations is not None:
            yield node.destinations
