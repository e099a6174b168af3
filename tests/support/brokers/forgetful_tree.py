"""Files and directories of a disk that can lose power, by node: names and bytes are durable apart from each other.

A sync of a file is of its bytes and its size; its name needs a sync of its directory, and that one's name another.
"""

from __future__ import annotations

import errno
import itertools
import stat
import time
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tests.simulation.file import NothingMore, SimulatedFile

SECTOR: Final = 512
"""Bytes that a disk writes together or not at all."""
ROOT: Final = 1
"""Its number, by which the kernel begins."""
_NOTHING: Final = NothingMore()


@dataclass(eq=False, slots=True)
class Node:
    """A file, or a directory.  `names`: what a directory has, `synced` for certain, `changes` since then in order."""

    number: int
    mode: int
    owner: tuple[int, int] = (0, 0)
    file: SimulatedFile = field(default_factory=lambda: SimulatedFile(page=SECTOR))
    names: dict[str, Node] = field(default_factory=dict)
    synced: dict[str, Node] = field(default_factory=dict)
    changes: list[tuple[str, Node | None]] = field(default_factory=list)
    links: int = 0
    lookups: int = 0
    times: list[int] = field(default_factory=lambda: [time.time_ns()] * 3)
    """Of its last access, of the last change of its contents, of its last change, in nanoseconds."""

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.mode)

    def touch(self) -> None:
        self.times[1] = self.times[2] = time.time_ns()

    def put(self, name: str, node: Node | None) -> None:
        """Let a name be that of a node, or of none."""
        before = self.names.pop(name, None)
        if before is not None:
            before.links -= 1
        if node is not None:
            self.names[name] = node
            node.links += 1
        self.changes.append((name, node))
        self.touch()

    def sync(self) -> None:
        """Make its bytes durable, or the names in it."""
        if self.is_directory:
            self.synced = dict(self.names)
            self.changes.clear()
        else:
            self.file.sync()


@dataclass(slots=True)
class Losses:
    """What a power cut took: changes of names, and sectors of files that are not as they were last."""

    names: int = 0
    sectors: int = 0


class Tree:
    """All of a disk.  Every call raises OSError as the system's own would."""

    def __init__(self) -> None:
        self._numbers = itertools.count(ROOT)
        self.root = self._new(stat.S_IFDIR | 0o755)
        self.root.links = 1
        self.known: dict[int, Node] = {ROOT: self.root}
        """Nodes that the kernel may name, by their numbers."""

    def _new(self, mode: int) -> Node:
        return Node(next(self._numbers), mode)

    def look_up(self, parent: Node, name: str) -> Node:
        node = parent.names.get(name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, name)
        node.lookups += 1
        self.known[node.number] = node
        return node

    def forget(self, number: int, times: int) -> None:
        """The kernel names it so many times less."""
        node = self.known.get(number)
        if node is None or number == ROOT:
            return
        node.lookups -= times
        if node.lookups <= 0:
            del self.known[number]

    def make(self, parent: Node, name: str, mode: int, owner: tuple[int, int]) -> Node:
        if name in parent.names:
            raise FileExistsError(errno.EEXIST, name)
        if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
            raise OSError(errno.EPERM, "files and directories only")
        made = self._new(mode)
        made.owner = owner
        parent.put(name, made)
        return self.look_up(parent, name)

    def link(self, node: Node, parent: Node, name: str) -> Node:
        if name in parent.names:
            raise FileExistsError(errno.EEXIST, name)
        parent.put(name, node)
        return self.look_up(parent, name)

    def remove(self, parent: Node, name: str) -> None:
        """A file, or an empty directory: the kernel knows which of them it asks for."""
        node = parent.names.get(name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, name)
        if node.names:
            raise OSError(errno.ENOTEMPTY, name)
        parent.put(name, None)

    def rename(self, parent: Node, name: str, target: Node, new_name: str, *, may_replace: bool = True) -> None:
        node, there = parent.names.get(name), target.names.get(new_name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, name)
        if there is node:
            return
        if there is not None:
            if not may_replace:
                raise FileExistsError(errno.EEXIST, new_name)
            if there.names:
                raise OSError(errno.ENOTEMPTY, new_name)
        target.put(new_name, node)
        parent.put(name, None)

    # -- losing power ----------------------------------------------------------------------------------------------

    def after_cut(self, rng: Random | None) -> tuple[Tree, Losses]:
        """What the next start finds, and what it does not.  Without `rng` nothing survives that was not synced."""
        after, losses, done = Tree(), Losses(), {self.root.number: ROOT}
        nodes = {ROOT: after.root}
        after.root.mode = self.root.mode

        def kept(node: Node) -> Node | None:
            if node.number in done:  # two names of one file; a directory has one
                return None if node.is_directory else nodes[done[node.number]]
            made = after._new(node.mode)
            made.owner, made.times = node.owner, list(node.times)
            done[node.number], nodes[made.number] = made.number, made
            if node.is_directory:
                fill(node, made)
            else:
                made.file = node.file.after_crash(rng or _NOTHING)
                losses.sectors += _different(node.file.data, made.file.data)
            return made

        def fill(node: Node, made: Node) -> None:
            names = _names_after(node, rng)
            losses.names += sum(node.names.get(name) is not names.get(name) for name in {*node.names, *names})
            for name, child in names.items():
                if (found := kept(child)) is not None:
                    made.put(name, found)
            made.sync()

        fill(self.root, after.root)
        return after, losses


def _names_after(node: Node, rng: Random | None) -> dict[str, Node]:
    """Changes survive in their order, up to one of them; or, as on a disk without a journal, each by itself."""
    names: dict[str, Node | None] = dict(node.synced)
    if rng is None:
        survivors = []
    elif rng.random() < 0.5:
        survivors = node.changes[: rng.randint(0, len(node.changes))]
    else:
        survivors = [change for change in node.changes if rng.random() < 0.5]
    names.update(survivors)
    return {name: child for name, child in names.items() if child is not None}


def _different(before: bytearray, after: bytearray) -> int:
    """How many sectors."""
    places = range(0, max(len(before), len(after)), SECTOR)
    return sum(before[at : at + SECTOR] != after[at : at + SECTOR] for at in places)
