"""RetainedIndex: the names of the retained messages with their sizes and expiries, in a trie of topic levels.

It is made for many names, so a level has no object of its own. A node is a dictionary from a level to its child. A
child with a single name is an integer (the name ends there) or a pair with the remaining levels as one text.
Invariants: `count` and `size_bytes` are those of the names in it, and each name that expires is in exactly one bucket
for the sweep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from sys import intern
from typing import Final, TypeAlias

from entrepot.domain.retained import NEVER, is_over

PAGE_VISITS: Final = 1000
"""Places of the trie visited for one page of names."""
BUCKET_MS: Final = 10_000
"""Width of a bucket of expiries, in milliseconds, whose names are swept together."""

_OWN: Final = "/"
"""Key of a node for the fact of its own name: no level is a slash."""
_SIZE_BITS: Final = 32
_Fact: TypeAlias = int
"""Expiry and size in one integer: half the memory of a pair."""
_Child: TypeAlias = "_Fact | tuple[str, _Fact] | dict[str, _Child]"
_Node: TypeAlias = dict[str, _Child]


class RetainedIndex:
    """The names, with the facts needed before a message is read."""

    def __init__(self) -> None:
        self._root: _Node = {}
        self._due: dict[int, set[str]] = {}
        self.count = 0
        self.size_bytes = 0

    # -- single names ------------------------------------------------------------------------------------------------

    def put(self, name: str, size: int, expires_at_ms: int = NEVER) -> None:
        """Add or replace a name; `size` is in bytes."""
        before = self._set(name, expires_at_ms << _SIZE_BITS | size)
        if before is None:
            self.count += 1
        else:
            self._uncount(name, before)
        self.size_bytes += size
        if expires_at_ms != NEVER:
            self._due.setdefault(expires_at_ms // BUCKET_MS, set()).add(name)

    def _set(self, name: str, fact: _Fact) -> _Fact | None:
        """Put a fact in its place; return the one before."""
        node, rest = self._root, name
        while True:
            level, slash, below = rest.partition("/")
            child = node.get(level)
            if child is None:
                node[intern(level)] = (intern(below), fact) if slash else fact
                return None
            if not isinstance(child, dict):
                before = _fact_of(child, bool(slash), below)
                if before is not None:
                    node[level] = fact if isinstance(child, int) else (child[0], fact)
                    return before
                node[level] = child = _node_of(child)  # from here on, two names share the level
            if not slash:
                before = _fact_of(child.get(_OWN), False, "")
                child[_OWN] = fact
                return before
            node, rest = child, below

    def remove(self, name: str) -> bool:
        """Forget a name; True if it was there."""
        path: list[tuple[_Node, str]] = []
        node, rest = self._root, name
        while True:
            level, slash, below = rest.partition("/")
            child = node.get(level)
            path.append((node, level))
            if isinstance(child, dict):
                node, rest = child, below
                if slash:
                    continue
                path.append((node, _OWN))
                child = node.get(_OWN)
            fact = _fact_of(child, bool(slash), below)
            break
        if fact is None:
            return False
        for parent, level in reversed(path):
            del parent[level]
            if parent:
                break
        self.count -= 1
        self._uncount(name, fact)
        return True

    def _uncount(self, name: str, fact: _Fact) -> None:
        self.size_bytes -= fact & (1 << _SIZE_BITS) - 1
        expires_at_ms = fact >> _SIZE_BITS
        if expires_at_ms != NEVER:
            names = self._due[expires_at_ms // BUCKET_MS]
            names.discard(name)
            if not names:
                del self._due[expires_at_ms // BUCKET_MS]

    def size_of(self, name: str) -> int | None:
        """The bytes kept for a name, or None."""
        fact = self._find(name)
        return None if fact is None else fact & (1 << _SIZE_BITS) - 1

    def __contains__(self, name: str) -> bool:
        return self._find(name) is not None

    def _find(self, name: str) -> _Fact | None:
        node, rest = self._root, name
        while True:
            level, slash, below = rest.partition("/")
            child = node.get(level)
            if not isinstance(child, dict):
                return _fact_of(child, bool(slash), below)
            if not slash:
                return _fact_of(child.get(_OWN), False, below)
            node, rest = child, below

    # -- many names --------------------------------------------------------------------------------------------------

    def due(self, now_ms: int, limit: int) -> list[str]:
        """Up to `limit` names whose expiry has passed, to the width of a bucket."""
        found: list[str] = []
        for bucket in sorted(bucket for bucket in self._due if (bucket + 1) * BUCKET_MS <= now_ms):
            found += self._due[bucket]
            if len(found) >= limit:
                break
        return found[:limit]

    def names(self) -> Iterator[str]:
        """Every name, also the expired ones and those of `$`."""
        for topic_filter in ("#", *(f"{level}/#" for level in tuple(self._root) if level.startswith("$"))):
            for page in self.pages(topic_filter, now_ms=0):
                yield from page

    def pages(self, topic_filter: str, now_ms: int, after: str | None = None) -> Iterator[list[str]]:
        """Yield names that match a filter and have not expired, one page per PAGE_VISITS places; pages may be empty.

        With `after`, names come in the order of their levels, those after it ("": all). Names may come and go between
        pages: each one that is there all the time comes once.
        """
        page: list[str] = []
        for visits, name in enumerate(self._visits(topic_filter.split("/"), now_ms, after), 1):
            if name is not None:
                page.append(name)
            if visits % PAGE_VISITS == 0:
                yield page
                page = []
        if page:
            yield page

    def _visits(self, wanted: list[str], now_ms: int, after: str | None) -> Iterator[str | None]:
        """Yield every visited place: a name, or None where there is none to tell. A frame of the stack is (prefix of
        its names, position in the filter, its depth, True if its names may be before `after`, the children left)."""
        bound = None if after is None else after.split("/")
        stack = [("", 0, 0, bound is not None, _children(self._root, wanted[0], 0, bound, bound is not None))]
        while stack:
            prefix, at, depth, is_bound, children = stack[-1]
            pushed = False
            following = at if wanted[at] == "#" else at + 1
            is_end = following == len(wanted) or wanted[following] == "#"
            for level, child in children:
                name = prefix + level
                below_bound = is_bound and bound is not None and depth < len(bound) and level == bound[depth]
                fact: _Child | None
                if isinstance(child, dict):
                    fact = child.get(_OWN) if is_end else None
                elif isinstance(child, int):
                    fact = child if is_end else None
                else:
                    name = f"{name}/{child[0]}"
                    fact = child[1] if _matches(wanted, following, child[0]) else None
                is_told = isinstance(fact, int) and not is_over(fact >> _SIZE_BITS, now_ms)
                if is_told and below_bound and bound is not None:
                    is_told = name.split("/") > bound
                yield name if is_told else None
                if isinstance(child, dict) and following < len(wanted):
                    below = _children(child, wanted[following], depth + 1, bound, below_bound)
                    stack.append((name + "/", following, depth + 1, below_bound, below))
                    pushed = True
                    break
            if not pushed:
                stack.pop()


def _children(
    node: _Node, want: str, depth: int, bound: list[str] | None, is_bound: bool
) -> Iterator[tuple[str, _Child]]:
    """The present children to visit below a node; in order if there is a bound."""
    if want not in ("+", "#"):
        child = node.get(want)
        found: Iterable[tuple[str, _Child]] = () if child is None else ((want, child),)
    else:
        found = [item for item in node.items() if item[0] != _OWN]
        if depth == 0:
            found = [item for item in found if item[0][:1] != "$"]  # 4.7.2
        if bound is not None:
            found = sorted(found, key=_level)
    if is_bound and bound is not None and depth < len(bound):
        found = [item for item in found if item[0] >= bound[depth]]
    return iter(found)


def _level(item: tuple[str, _Child]) -> str:
    return item[0]


def _matches(wanted: list[str], at: int, rest: str) -> bool:
    """True if the remaining levels match the rest of a filter."""
    levels = rest.split("/")
    for level in levels:
        if at == len(wanted) or wanted[at] not in ("+", "#", level):
            return False
        if wanted[at] == "#":
            return True
        at += 1
    return at == len(wanted) or wanted[at] == "#"


def _node_of(leaf: _Fact | tuple[str, _Fact]) -> _Node:
    """Return a node with the one name of a leaf."""
    if isinstance(leaf, int):
        return {_OWN: leaf}
    level, slash, below = leaf[0].partition("/")
    return {intern(level): (intern(below), leaf[1]) if slash else leaf[1]}


def _fact_of(child: _Child | None, goes_on: bool, below: str) -> _Fact | None:
    """The fact of a leaf for the name that ends at it, or goes on with `below`."""
    if isinstance(child, int):
        return None if goes_on else child
    return child[1] if isinstance(child, tuple) and goes_on and child[0] == below else None
