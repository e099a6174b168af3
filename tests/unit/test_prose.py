"""The product's docstrings, comments and texts have the thing first, and words that no reader stumbles over."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.cases import cases

ROOT = Path(__file__).resolve().parents[2]
TOPS: Final = ("gateway", "protocols", "domain", "store_client", "broker", "spark_ingest")
GENERATED: Final = "_pb2.py"
QUESTION: Final = re.compile(r"(?:^|[.?!] )(?:What|Who|How|Whether)\b")
"""A sentence that begins with a question's word: say the thing."""
OWN: Final = re.compile(r"\bthe own\b")
"""Say "its own"."""
IS_NO: Final = re.compile(r"(?<![Tt]here )\b(?:is|are|was|were) no (?!(?:longer|more|older|newer|larger|later)\b)")
"""Say "is not a".  "There is no", "is no longer" and "is no older" are right."""
SPACES: Final = re.compile(r"\s+")
BREAKS: Final = re.compile(r"\s+(?:#[#: ]*)?")
SUSPECT: Final = re.compile(r"\b(?:What|Who|How|Whether|the own|(?:is|are|was|were) no)\b")
"""Words without which a source is not taken apart."""


class Piece(NamedTuple):
    line: int
    text: str


def pieces(source: str) -> Iterator[Piece]:
    """The docstrings, comments and texts of a module.  Comments of following lines are one."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield Piece(node.lineno, SPACES.sub(" ", node.value))
    yield from _comments(source)


def _comments(source: str) -> Iterator[Piece]:
    begun: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        line, is_alone = token.start[0], not token.line[: token.start[1]].strip()
        if begun and not (is_alone and line == begun[-1][0] + 1):
            yield _joined(begun)
            begun = []
        begun.append((line, token.string.lstrip("#: ")))
    if begun:
        yield _joined(begun)


def _joined(lines: list[tuple[int, str]]) -> Piece:
    return Piece(lines[0][0], " ".join(text for _, text in lines))


def faults(source: str) -> list[tuple[int, str]]:
    """Lines and words of what reads badly."""
    if not SUSPECT.search(BREAKS.sub(" ", source)):
        return []
    found: list[tuple[int, str]] = []
    for piece in pieces(source):
        for pattern in (QUESTION, OWN, IS_NO):
            found += [
                (piece.line, piece.text[match.start() : match.end() + 30]) for match in pattern.finditer(piece.text)
            ]
    return sorted(found)


def test_prose_has_the_thing_first():
    found = [
        f"{name}:{line}: {words}"
        for top in TOPS
        for path in sorted((ROOT / top).rglob("*.py"))
        if not (name := str(path.relative_to(ROOT))).endswith(GENERATED)
        for line, words in faults(path.read_text())
    ]
    assert found == []


@cases(
    "source, words",
    [
        ('"""What it does."""', ["What it does."]),
        ('"""A queue. Who waits is told."""', [". Who waits is told."]),
        ("x = 1  # whether it is", []),
        ("# How it goes\nx = 1", ["How it goes"]),
        ('"""A table: what it has, and how."""', []),
        ('raise ValueError("How it goes")', ["How it goes"]),
        ('"""Up to the own\nterm."""', ["the own term."]),
        ('raise ValueError("it is no number")', ["is no number"]),
        ('raise ValueError(f"{x} are no numbers")', ["are no numbers"]),
        ('"""There is no number; it is no longer one, and is no older than that."""', []),
        ("# A text that\n# is no\n# number", ["is no number"]),
        ('x = "no number"', []),
    ],
)
def test_the_words_that_read_badly(source: str, words: list[str]):
    assert [found for _, found in faults(source)] == words
