"""A Pratt parser for the SQL92 filters of RocketMQ.

RocketMQ's grammar is ActiveMQ's selector without arithmetic and LIKE, plus CONTAINS, STARTSWITH and ENDSWITH.  This one
has LIKE as in JMS, and three more deliberate differences.  NOT binds as in SQL, weaker than comparisons (in RocketMQ
`NOT a = 1` means `(NOT a) = 1`).  `a = b = c` needs parentheses.  A boolean cannot be compared with a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.domain.errors import EntrepotError
from entrepot.domain.expression.fault import fault, shown
from entrepot.domain.expression.like import LikePattern
from entrepot.domain.expression.token_reader import Token, TokenKind, TokenReader
from entrepot.domain.expression.tokens import LEXER
from entrepot.domain.expression.tree import (
    CONDITIONS,
    All,
    Any,
    Comparison,
    Constant,
    Negative,
    Node,
    Not,
    NullTest,
    Property,
    TextTest,
    Truth,
)

MAX_SQL_LENGTH: Final = 8192
MAX_SQL_DEPTH: Final = 32
"""Deepest nesting of parentheses, NOT and unary signs: parsing and evaluation recurse for each."""

MAX_SQL_PATTERNS: Final = 32
"""Most LIKEs in one expression: a pattern may examine every character of a property."""

_OR, _AND, _NOT, _EQUALITY, _COMPARISON = 10, 20, 30, 40, 50
_POWERS: Final = {
    "OR": _OR,
    "AND": _AND,
    **dict.fromkeys(("=", "<>", "IS"), _EQUALITY),
    **dict.fromkeys(("<", "<=", ">", ">=", "NOT"), _COMPARISON),
    **dict.fromkeys(("BETWEEN", "IN", "LIKE", "CONTAINS", "STARTSWITH", "ENDSWITH"), _COMPARISON),
}
_TEXT_TESTS: Final[dict[str, Callable[[str, str], bool]]] = {
    "CONTAINS": lambda text, search: search in text,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def parse_sql(text: str) -> Node:
    """Return the condition of an SQL92 filter.  Raises ILLEGAL_FILTER_EXPRESSION with the place of the fault."""
    if len(text) > MAX_SQL_LENGTH:
        raise fault(f"an SQL92 filter has at most {MAX_SQL_LENGTH} characters", MAX_SQL_LENGTH)
    return _Parser(LEXER.tokens_of(text)).whole()


class _Parser(TokenReader):
    __slots__ = ("_patterns",)

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__(tokens, MAX_SQL_DEPTH, _POWERS)
        self._patterns = 0

    def whole(self) -> Node:
        condition = _condition(self._expression(0))
        if self._peek().kind is not TokenKind.END:
            raise self._unexpected("nothing can stand here but an operator or the end")
        return condition

    # --- words

    def _expect(self, word: str) -> None:
        if not self._taken(word):
            raise self._unexpected(f"{word} is wanted")

    def _text(self) -> str:
        """Take the next token, which must be a text constant."""
        if self._peek().kind is not TokenKind.TEXT:
            raise self._unexpected("a text in quotes is wanted")
        return self._take().value

    def _unexpected(self, wanted: str) -> EntrepotError:
        token = self._peek()
        if token.kind is TokenKind.END:
            found = "the end of the expression"
        else:
            found = f"{'the text ' if token.kind is TokenKind.TEXT else ''}{shown(token.value)}"
        return fault(f"unexpected {found}: {wanted}", token.place)

    # --- grammar

    def _expression(self, floor: int) -> Node:
        """Parse an operand and every operator after it that binds more tightly than `floor`."""
        left = self._operand(floor)
        while self._power() > floor:
            left = self._operation(left)
        return left

    def _operand(self, floor: int) -> Node:
        token = self._peek()
        if token.kind in (TokenKind.TEXT, TokenKind.NUMBER):
            self._next += 1
            return Constant(token.place, token.value if token.kind is TokenKind.TEXT else token.number)
        if token.kind is TokenKind.NAME:
            self._next += 1
            return Property(token.place, token.value)
        if self._is("TRUE", "FALSE", "NULL"):
            self._next += 1
            return Constant(token.place, {"TRUE": True, "FALSE": False}.get(token.value))
        if self._is("(", "NOT", "-", "+"):
            return self._nested(floor)
        raise self._unexpected("a property, a constant or '(' is wanted")

    def _nested(self, floor: int) -> Node:
        self._deeper()
        if floor > _NOT and self._is("NOT"):
            raise self._unexpected("NOT wants parentheses around it here")
        token = self._take()
        node: Node
        if token.value == "(":
            node = self._expression(0)
            self._expect(")")
        elif token.value == "NOT":
            node = Not(token.place, _condition(self._expression(_NOT)))
        else:
            node = _signed(token, self._operand(_COMPARISON))
        self._depth -= 1
        return node

    def _operation(self, left: Node) -> Node:
        token = self._take()
        match token.value:
            case "OR":
                return Any(left.place, self._chain(left, "OR", _OR))
            case "AND":
                return All(left.place, self._chain(left, "AND", _AND))
            case "=" | "<>" | "IS":
                return self._equality(left, token)
            case "<" | "<=" | ">" | ">=":
                return Comparison(token.place, token.value, _ordered(left), _ordered(self._right()))
            case "NOT":
                if not self._is("BETWEEN", "IN", "LIKE", *_TEXT_TESTS):
                    raise self._unexpected("BETWEEN, IN, LIKE, CONTAINS, STARTSWITH or ENDSWITH is wanted after NOT")
                return self._predicate(left, self._take(), negated=True)
        return self._predicate(left, token, negated=False)

    def _right(self) -> Node:
        return self._expression(_COMPARISON)

    def _chain(self, left: Node, word: str, power: int) -> tuple[Node, ...]:
        parts = [_condition(left), _condition(self._expression(power))]
        while self._taken(word):
            parts.append(_condition(self._expression(power)))
        return tuple(parts)

    def _equality(self, left: Node, token: Token) -> Node:
        node: Node
        if token.value == "IS":
            negated = self._taken("NOT")
            self._expect("NULL")
            node = NullTest(token.place, left)
            if negated:
                node = Not(token.place, node)
        else:
            node = _equal(token, left, self._expression(_EQUALITY))
        if self._is("=", "<>", "IS"):
            raise self._unexpected("comparisons in a row want parentheses")
        return node

    def _predicate(self, left: Node, token: Token, *, negated: bool) -> Node:
        if token.value == "BETWEEN":
            return self._between(left, token, negated=negated)
        if token.value in _TEXT_TESTS:
            return self._text_test(left, token, negated=negated)
        node = self._in(left, token) if token.value == "IN" else self._like(left, token)
        return Not(token.place, node) if negated else node

    def _between(self, left: Node, token: Token, *, negated: bool) -> Node:
        """Parse BETWEEN as two comparisons, as RocketMQ does, which refuses constants in the wrong order too."""
        value, low = _ordered(left), _ordered(self._right())
        self._expect("AND")
        high = _ordered(self._right())
        if isinstance(low, Constant) and isinstance(high, Constant) and _number(low) > _number(high):
            raise fault(f"BETWEEN wants the lower bound first, {low.value} is greater than {high.value}", low.place)
        signs, combination = (("<", ">"), Any) if negated else ((">=", "<="), All)
        bounds = (Comparison(token.place, sign, value, bound) for sign, bound in zip(signs, (low, high), strict=True))
        return combination(token.place, tuple(bounds))

    def _in(self, left: Node, token: Token) -> Node:
        if not isinstance(left, Property):
            raise fault("IN wants a property on its left", left.place)
        self._expect("(")
        texts = [self._text()]
        while self._taken(","):
            texts.append(self._text())
        self._expect(")")
        return TextTest(token.place, left, frozenset(texts).__contains__)

    def _like(self, left: Node, token: Token) -> Node:
        operand = _textual(left, token)
        self._patterns += 1
        if self._patterns > MAX_SQL_PATTERNS:
            raise fault(f"an expression has at most {MAX_SQL_PATTERNS} LIKEs", token.place)
        place = self._peek().place
        pattern, escape = self._text(), None
        if self._taken("ESCAPE"):
            escape_place = self._peek().place
            escape = self._text()
            if len(escape) != 1:
                raise fault("ESCAPE wants exactly one character", escape_place)
        return TextTest(token.place, operand, LikePattern(pattern, escape, place).matches)

    def _text_test(self, left: Node, token: Token, *, negated: bool) -> Node:
        operand, test, search = _textual(left, token), _TEXT_TESTS[token.value], self._text()
        if not search:  # RocketMQ: nothing contains the empty text, and nothing does not contain it
            return TextTest(token.place, operand, lambda _: False)
        node = TextTest(token.place, operand, lambda text: test(text, search))
        return Not(token.place, node) if negated else node


# --- types


def _condition(node: Node) -> Node:
    """Return the node as a condition; a property's text then counts as TRUE or FALSE."""
    if isinstance(node, Property):
        return Truth(node.place, node)
    if isinstance(node, CONDITIONS) or (isinstance(node, Constant) and isinstance(node.value, bool | None)):
        return node
    raise fault("a condition is wanted here, not a value", node.place)


def _is_number(node: Node) -> bool:
    if isinstance(node, Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    return isinstance(node, Negative)


def _number(constant: Constant) -> int | float:
    return constant.value if isinstance(constant.value, int | float) else 0


def _ordered(node: Node) -> Node:
    """Return the node as an operand of an order comparison: numbers only (RocketMQ: `checkLessThanOperand`)."""
    if isinstance(node, Property) or _is_number(node):
        return node
    raise fault("only a number or a property can be less or greater", node.place)


def _textual(node: Node, token: Token) -> Node:
    if isinstance(node, Property) or (isinstance(node, Constant) and isinstance(node.value, str)):
        return node
    raise fault(f"{token.value} wants a property or a text on its left", node.place)


def _equal(token: Token, left: Node, right: Node) -> Node:
    for node in (left, right):
        if isinstance(node, Constant) and node.value is None:
            raise fault("nothing equals NULL: IS NULL and IS NOT NULL ask for it", node.place)
    numbers = _is_number(left), _is_number(right)
    if any(numbers) and not all(numbers):
        other = left if numbers[1] else right
        if isinstance(other, CONDITIONS) or (isinstance(other, Constant) and isinstance(other.value, bool)):
            raise fault("a condition cannot be compared with a number", token.place)
    return Comparison(token.place, token.value, left, right)


def _signed(sign: Token, operand: Node) -> Node:
    if not (isinstance(operand, Property) or _is_number(operand)):
        raise fault(f"{shown(sign.value)} wants a number or a property after it", sign.place)
    if isinstance(operand, Constant):
        return Constant(sign.place, -_number(operand) if sign.value == "-" else _number(operand))
    return Negative(sign.place, operand) if sign.value == "-" else operand
