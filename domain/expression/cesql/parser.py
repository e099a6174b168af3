"""A Pratt parser for CESQL (CESQL 2 and 3.6).  Precedence from high to low: unary NOT and `-`; LIKE and IN; `* / %`; `+
-`; comparisons; AND, OR and XOR.  The last three share one precedence and associate to the left, unlike in SQL."""

from __future__ import annotations

import re
from typing import Final

from entrepot.domain.expression.cesql.tokens import LEXER, CesqlParseError, integer_of
from entrepot.domain.expression.cesql.tree import (
    Arithmetic,
    Attribute,
    Call,
    Chain,
    Comparison,
    Constant,
    Exists,
    In,
    Like,
    Link,
    Logic,
    Negative,
    Node,
    Not,
)
from entrepot.domain.expression.fault import shown
from entrepot.domain.expression.token_reader import TokenKind, TokenReader

MAX_CESQL_LENGTH: Final = 8192
MAX_CESQL_DEPTH: Final = 32
"""Deepest nesting of parentheses, calls, unary operators, and successive LIKE and IN: evaluation recurses for each."""
MAX_CESQL_PATTERNS: Final = 32
"""Most LIKEs in one expression: a pattern may examine every character of a value."""

_LOGIC, _COMPARISON, _ADDITION, _MULTIPLICATION, _PREDICATE = 10, 20, 30, 40, 50
_POWERS: Final = {
    **dict.fromkeys(("AND", "OR", "XOR"), _LOGIC),
    **dict.fromkeys(("=", "!=", "<>", "<", "<=", ">", ">="), _COMPARISON),
    **dict.fromkeys(("+", "-"), _ADDITION),
    **dict.fromkeys(("*", "/", "%"), _MULTIPLICATION),
    **dict.fromkeys(("LIKE", "IN", "NOT"), _PREDICATE),
}
_CHAINS: Final[dict[int, type[Chain]]] = {
    _LOGIC: Logic,
    _COMPARISON: Comparison,
    _ADDITION: Arithmetic,
    _MULTIPLICATION: Arithmetic,
}
_FUNCTION = re.compile(r"[A-Za-z][A-Za-z_]*")
_AN_OPERAND: Final = "an attribute, a constant, a function, NOT, EXISTS, '-' or '(' is wanted"


def parse_cesql(text: str) -> Node:
    """Return the tree of a CESQL expression.  Raises `CesqlParseError` and nothing else, for any text."""
    if len(text) > MAX_CESQL_LENGTH:
        raise CesqlParseError(
            text, MAX_CESQL_LENGTH, f"{len(text)} characters", f"an expression has at most {MAX_CESQL_LENGTH}"
        )
    return _Parser(text).whole()


class _Parser(TokenReader):
    __slots__ = ("_patterns", "_text")

    def __init__(self, text: str) -> None:
        super().__init__(LEXER.tokens_of(text), MAX_CESQL_DEPTH, _POWERS)
        self._text = text
        self._patterns = 0

    def whole(self) -> Node:
        node = self._expression(0)
        if self._peek().kind is not TokenKind.END:
            raise self._unexpected("an operator or the end is wanted")
        return node

    # --- words

    def _expect(self, word: str, instead: str = "") -> None:
        if not self._taken(word):
            raise self._unexpected(f"{word!r}{instead} is wanted")

    def _unexpected(self, wanted: str) -> CesqlParseError:
        token = self._peek()
        if token.kind is TokenKind.END:
            found = "the expression ends"
        else:
            found = f"unexpected {'the string ' if token.kind is TokenKind.TEXT else ''}{shown(token.value)}"
        return CesqlParseError(self._text, token.place, found, wanted)

    # --- grammar

    def _expression(self, floor: int) -> Node:
        """Parse an operand and every operator after it that binds more tightly than `floor`."""
        left = self._operand()
        depth = self._depth
        while (power := self._power()) > floor:
            if power == _PREDICATE:
                self._deeper()  # each is the operand of the next
                left = self._predicate(left)
            else:
                left = self._chain(left, power)
        self._depth = depth
        return left

    def _chain(self, first: Node, power: int) -> Node:
        links: list[Link] = []
        while self._power() == power:
            sign = self._take()
            links.append(Link(sign.place, sign.value, self._expression(power)))
        return _CHAINS[power](first.place, first, tuple(links))

    def _operand(self) -> Node:
        token = self._peek()
        if token.kind is TokenKind.TEXT:
            self._next += 1
            return Constant(token.place, token.value)
        if token.kind is TokenKind.NUMBER:
            self._next += 1
            return Constant(token.place, integer_of(self._text, token.place, token.value))
        if token.kind is TokenKind.NAME:
            return self._named()
        if self._is("TRUE", "FALSE"):
            self._next += 1
            return Constant(token.place, token.value == "TRUE")
        if self._is("EXISTS"):
            self._next += 1
            return Exists(token.place, self._attribute_name())
        if self._is("+", "-") and (integer := self._signed_integer()):
            return integer
        if self._is("(", "NOT", "-"):
            return self._nested()
        raise self._unexpected(_AN_OPERAND)

    def _signed_integer(self) -> Node | None:
        """Parse a sign and the digits right after it as one literal (CESQL 2.2), which admits the least integer."""
        sign, digits = self._tokens[self._next : self._next + 2]
        if digits.kind is not TokenKind.NUMBER or digits.place != sign.end:
            return None
        self._next += 2
        return Constant(sign.place, integer_of(self._text, sign.place, sign.value + digits.value))

    def _nested(self) -> Node:
        self._deeper()
        token = self._take()
        node: Node
        if token.value == "(":
            node = self._expression(0)
            self._expect(")", " or an operator")
        elif token.value == "NOT":
            node = Not(token.place, self._operand())
        else:
            node = Negative(token.place, self._operand())
        self._depth -= 1
        return node

    def _named(self) -> Node:
        """Parse an attribute, or a function with its arguments."""
        name = self._peek()
        if self._tokens[self._next + 1].value != "(" or self._tokens[self._next + 1].kind is not TokenKind.SIGN:
            return Attribute(name.place, self._attribute_name())
        if _FUNCTION.fullmatch(name.value) is None:
            raise self._unexpected("the name of a function has letters and '_' only")
        self._deeper()
        self._next += 2
        arguments = () if self._is(")") else self._list()
        self._expect(")", ", ',' or an operator" if arguments else "")
        self._depth -= 1
        return Call(name.place, name.value.upper(), arguments)

    def _attribute_name(self) -> str:
        token = self._peek()
        if token.kind not in (TokenKind.NAME, TokenKind.NUMBER):
            raise self._unexpected("the name of an attribute is wanted")
        if "_" in token.value:
            raise self._unexpected("the name of an attribute has letters and digits only; a function wants '('")
        self._next += 1
        return token.value.lower()

    def _list(self) -> tuple[Node, ...]:
        nodes = [self._expression(0)]
        while self._taken(","):
            nodes.append(self._expression(0))
        return tuple(nodes)

    def _predicate(self, left: Node) -> Node:
        negated = self._taken("NOT")
        if self._taken("IN"):
            self._expect("(")
            members = self._list()
            self._expect(")", ", ',' or an operator")
            return In(left.place, left, members, negated)
        if not self._taken("LIKE"):
            raise self._unexpected("after NOT, LIKE or IN is wanted")
        self._patterns += 1
        if self._patterns > MAX_CESQL_PATTERNS:
            raise self._unexpected(f"an expression has at most {MAX_CESQL_PATTERNS} LIKEs")
        if self._peek().kind is not TokenKind.TEXT:
            raise self._unexpected("a string in quotes is wanted: the pattern of LIKE is written out")
        return Like(left.place, left, self._take().value, negated)
