"""Listed names: expressions that are a list of names and beginnings of names, and the resources that say the same.

`^(orders|app\\..*)$` is the name `orders` and all names that begin with `app.`: `Topic:orders/#` and `Topic:app%2E*`.
A name stands for a Topic with all its sub-topics, as an exchange is meant with every routing key.  Names are those of
the Topics that stand for exchanges and queues (`domain.entity_name`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from entrepot.domain.access.model import NAMESPACE_LEVEL
from entrepot.domain.entity_name import MAX_KEPT_PREFIX, decoded_name, encoded_name
from entrepot.domain.errors import EntrepotError
from entrepot.domain.names import DEFAULT_NAMESPACE

Token = tuple[str, bool]

EVERYTHING: Final = ".*"
OF_ALL: Final = "#"
"""Pattern of all names of the default namespace, and of no other."""
_SUB_TOPICS: Final = "/#"
_SPECIAL: Final = frozenset(".[]{}()*+?^$|")
_BEGIN, _END, _OPEN, _CLOSE, _BAR, _ANY, _MANY = ((each, False) for each in "^$()|.*")
_WILD: Final = frozenset("*+#$\0")
"""Characters that no listed name has, since they mean something else in a resource."""


def patterns_of(expression: str) -> tuple[str, ...] | None:
    """Return the patterns of an expression: names, beginnings (`app*`) and `#` for everything.  None: it is not a list
    of names."""
    if expression in (EVERYTHING, "^.*", ".*$", "^.*$"):
        return (OF_ALL,)
    tokens = _tokens(expression)
    if tokens[:2] == [_BEGIN, _OPEN] and tokens.count(_CLOSE) == 1:
        at = tokens.index(_CLOSE)
        ending = tokens[at + 1 :]
        if ending not in ([_END], [], [_ANY, _MANY], [_ANY, _MANY, _END]):
            return None
        found = [_pattern_of(part, ending != [_END]) for part in _alternatives(tokens[2:at])]
    else:
        found = [_pattern_of_whole(part) for part in _alternatives(tokens)]
    patterns = tuple(dict.fromkeys(each for each in found if each is not None))
    return patterns if None not in found else None


def expression_of(patterns: Iterable[str]) -> str:
    """Return an expression of patterns, of which there is at least one."""
    found = list(patterns)
    if OF_ALL in found:
        return EVERYTHING
    parts = [_escaped(each[:-1]) + ".*" if each.endswith("*") else _escaped(each) for each in found]
    return f"^{parts[0]}$" if len(parts) == 1 else f"^({'|'.join(parts)})$"


def resources_of(kind: str, namespace: str, patterns: Iterable[str]) -> tuple[str, ...] | None:
    """Return the resources of patterns, or None where a name is too long to be said whole."""
    found = [_resource(kind, namespace, each) for each in patterns]
    named = tuple(each for each in found if each is not None)
    return named if len(named) == len(found) else None


def pattern_of_resource(resource: str, namespace: str) -> str | None:
    """Return the pattern of a resource that `resources_of` made for the namespace, or None for any other resource."""
    kind, _, text = resource.partition(":")
    if kind not in ("Topic", "Group"):
        return None
    before = before_names(namespace)
    if not text.startswith(before):
        return None
    text = text.removeprefix(before)
    if text == ("*" if before else OF_ALL):
        return OF_ALL
    ending = "*" if text.endswith("*") else _SUB_TOPICS if kind == "Topic" else ""
    name = decoded_name(text.removesuffix(ending)) if text.endswith(ending) else None
    if not name or _WILD.intersection(name):
        return None
    return f"{name}*" if ending == "*" else name


def before_names(namespace: str) -> str:
    """Return what is in front of the names of a namespace in resources and requests."""
    return "" if namespace == DEFAULT_NAMESPACE else f"{NAMESPACE_LEVEL}/{namespace}/"


def _tokens(expression: str) -> list[Token]:
    """Return the characters, each with a flag: True if it stands for itself."""
    found: list[Token] = []
    at = 0
    while at < len(expression):
        character = expression[at]
        if character == "\\" and at + 1 < len(expression) and not expression[at + 1].isalnum():
            at += 1
            found.append((expression[at], True))
        else:
            found.append((character, character not in _SPECIAL and character != "\\"))
        at += 1
    return found


def _alternatives(tokens: list[Token]) -> list[list[Token]]:
    found: list[list[Token]] = [[]]
    for token in tokens:
        if token == _BAR:
            found.append([])
        else:
            found[-1].append(token)
    return found


def _pattern_of_whole(tokens: list[Token]) -> str | None:
    if tokens[:1] != [_BEGIN]:
        return None
    is_closed = tokens[-1] == _END
    return _pattern_of(tokens[1:-1] if is_closed else tokens[1:], not is_closed)


def _pattern_of(tokens: list[Token], is_open: bool) -> str | None:
    """Return the pattern of one alternative.  `is_open`: more characters may follow."""
    if tokens[-2:] == [_ANY, _MANY]:
        tokens, is_open = tokens[:-2], True
    name = "".join(character for character, _ in tokens)
    if not all(is_literal for _, is_literal in tokens) or _WILD.intersection(name):
        return None
    if is_open:
        return f"{name}*" if name else OF_ALL
    return name or None


def _escaped(name: str) -> str:
    return "".join(f"\\{each}" if each in _SPECIAL or each == "\\" else each for each in name)


def _resource(kind: str, namespace: str, pattern: str) -> str | None:
    before = before_names(namespace)
    if pattern == OF_ALL:
        return f"{kind}:{before}*" if before else f"{kind}:{OF_ALL}"
    try:
        name = encoded_name(pattern.removesuffix("*"))
    except EntrepotError:
        return None
    if pattern.endswith("*"):
        return f"{kind}:{before}{name}*" if len(name) <= MAX_KEPT_PREFIX else None
    if decoded_name(name) is None:
        return None
    return f"{kind}:{before}{name}{_SUB_TOPICS if kind == 'Topic' else ''}"
