"""The Huffman code of HPACK (RFC 7541, appendix B), decoded by half bytes.

The code is canonical, so the lengths say all: codes of one length follow each other in the order of their symbols.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_LENGTHS: Final = tuple(
    int(digit, 36)
    for digit in (
        "dnsssssssoussussssssssusssssssss6aacd68baa8b8666555666666678f6cad67777777777777777777777878djde6"
        "f56565666577666567655677777fbedskmkkmmmnmnnnnnonoomnonnnnlmnmnnomlkmmnnlnmmolmnnllmlnmnnkmmmnmmn"
        "qqkjmnmpqqqrrqopjlqrrqrollqqsrrrkoklmllnmmppooqnqrqqrrrrrsrrrrrqu"
    )
)
"""Bits of each symbol's code, a digit of base 36 each; the last symbol is the end of the string, never sent."""
_END: Final = 256
_MAX_PADDING_BITS: Final = 7


class HuffmanError(Exception):
    """The bytes are not a string in this code."""


class _Step(NamedTuple):
    """The outcome of half a byte: the next state, negative where there is none, and the decoded bytes."""

    state: int
    found: bytes


_Node = dict[int, "int | _Node"]


def _codes() -> list[tuple[int, int]]:
    """Return code and length of each symbol."""
    found, code, last = [(0, 0)] * len(_LENGTHS), 0, 0
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(_LENGTHS)):
        code <<= length - last
        found[symbol], last = (code, length), length
        code += 1
    return found


CODES: Final = _codes()


def _tree() -> _Node:
    root: _Node = {}
    for symbol, (code, length) in enumerate(CODES):
        node = root
        for bit in range(length - 1, 0, -1):
            child = node.setdefault(code >> bit & 1, {})
            assert isinstance(child, dict)
            node = child
        node[code & 1] = symbol
    return root


def _walked(root: _Node, node: _Node, nibble: int) -> tuple[_Node | None, bytes]:
    """Return the node behind four bits, None where they lead nowhere, and the symbols on the way."""
    found = b""
    for bit in (3, 2, 1, 0):
        child = node[nibble >> bit & 1]
        if isinstance(child, dict):
            node = child
        elif child == _END:
            return None, b""
        else:
            found += bytes((child,))
            node = root
    return node, found


def _machine() -> tuple[list[list[_Step]], frozenset[int]]:
    """Return a row of 16 steps for each state, and the states in which a string may end."""
    root = _tree()
    numbers, nodes, table = {id(root): 0}, [root], list[list[_Step]]()
    while len(table) < len(nodes):
        row = []
        for nibble in range(16):
            node, found = _walked(root, nodes[len(table)], nibble)
            if node is None:
                row.append(_Step(-1, b""))
                continue
            if id(node) not in numbers:
                numbers[id(node)] = len(nodes)
                nodes.append(node)
            row.append(_Step(numbers[id(node)], found))
        table.append(row)
    ends, node = {0}, root
    for _ in range(_MAX_PADDING_BITS):  # padding is the begin of the end's code: ones
        child = node[1]
        assert isinstance(child, dict)
        node = child
        if id(node) in numbers:
            ends.add(numbers[id(node)])
    return table, frozenset(ends)


_TABLE, _ENDS = _machine()


def decode(data: bytes) -> bytes:
    """Return the decoded string.  Raises HuffmanError."""
    state, found, table = 0, list[bytes](), _TABLE
    for byte in data:
        state, symbols = table[state][byte >> 4]
        if state < 0:
            raise HuffmanError("the end of the string is in it")
        if symbols:
            found.append(symbols)
        state, symbols = table[state][byte & 15]
        if state < 0:
            raise HuffmanError("the end of the string is in it")
        if symbols:
            found.append(symbols)
    if state not in _ENDS:
        raise HuffmanError("the padding is not the begin of the end of the string")
    return b"".join(found)
