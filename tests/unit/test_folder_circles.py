"""Folders make no circle: who reads one needs no other that needs it again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import grimp
import pytest

Edges = Mapping[str, Iterable[str]]


def folder_edges() -> dict[str, set[str]]:
    """Imports between folders, those for types alone as well."""
    graph = grimp.build_graph("entrepot", exclude_type_checking_imports=False)
    folders = {each for each in graph.modules if graph.find_children(each)}

    def folder(module: str) -> str:
        found = module if module in folders else module.rpartition(".")[0]
        return found.removeprefix("entrepot").removeprefix(".")

    edges: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            edges[folder(module)].add(folder(imported))
    return edges


def reached(edges: Edges, start: str) -> set[str]:
    """Everything that a folder needs, and what that needs."""
    found, open_ones = set[str](), [start]
    while open_ones:
        for each in set(edges.get(open_ones.pop(), ())) - found:
            found.add(each)
            open_ones.append(each)
    return found


def circles(edges: Edges) -> set[frozenset[str]]:
    needs = {folder: reached(edges, folder) for folder in edges}
    found = {frozenset(each for each in needs[folder] if folder in needs.get(each, ())) | {folder} for folder in needs}
    return {circle for circle in found if len(circle) > 1}


def test_there_are_no_circles() -> None:
    assert circles(folder_edges()) == set()


@pytest.mark.parametrize(
    ("edges", "found"),
    [
        ({"a": ["b"], "b": ["c"]}, set()),
        ({"a": ["a"]}, set()),
        ({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]}, {frozenset("abc")}),
    ],
)
def test_a_circle_is_found(edges: Edges, found: set[frozenset[str]]) -> None:
    assert circles(edges) == found
