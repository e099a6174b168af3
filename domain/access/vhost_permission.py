"""VhostPermission: RabbitMQ's permissions of a user in one virtual host, translated to statements and back.

*Configure* is CREATE and DELETE of Topics, *write* PUB and UPDATE, *read* SUB of Topics and of Groups.  A permission
covers an exchange with any routing key, so a Topic is named with all its sub-topics (`Topic:orders/#`).  Names are
those of the Topics that stand for exchanges and queues (`domain.entity_name`).

RabbitMQ's patterns are regular expressions; resources are not.  Accepted are expressions for names and prefixes
(`^(orders|app\\..*)$`), for everything (`.*`) and for nothing (empty).  Others are refused, never widened or narrowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from entrepot.domain.access.model import NAMESPACE_LEVEL, Action, Effect, Statement
from entrepot.domain.entity_name import MAX_KEPT_PREFIX, decoded_name, encoded_name
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import DEFAULT_NAMESPACE

Token = tuple[str, bool]

MAX_EXPRESSION_LENGTH: Final = 4096
EVERYTHING: Final = ".*"
NOTHING: Final = "^$"
_CONFIGURE: Final = (Action.CREATE, Action.DELETE)
_WRITE: Final = (Action.PUB, Action.UPDATE)
_READ: Final = (Action.SUB,)
_OF_ALL: Final = "#"
"""Pattern of all names of the default namespace, and of no other."""
_SUB_TOPICS: Final = "/#"
_SPECIAL: Final = frozenset(".[]{}()*+?^$|")
_BEGIN, _END, _OPEN, _CLOSE, _BAR, _ANY, _MANY = ((each, False) for each in "^$()|.*")
_WILD: Final = frozenset("*+#$\0")
"""Characters refused in names, since they mean something else in a resource."""


@dataclass(frozen=True, slots=True)
class VhostPermission:
    """The configure, write and read permissions of a user: regular expressions searched in names."""

    configure: str
    write: str
    read: str


def statements_of(permission: VhostPermission, namespace: str) -> list[Statement]:
    """Return the statements of a permission.  Raises BAD_REQUEST for an expression that resources cannot express."""
    found: list[Statement] = []
    for actions, expression, types in (
        (_CONFIGURE, permission.configure, ("Topic",)),
        (_WRITE, permission.write, ("Topic",)),
        (_READ, permission.read, ("Topic", "Group")),
    ):
        patterns = patterns_of(expression)
        if patterns:
            resources = tuple(_resource(kind, namespace, pattern) for kind in types for pattern in patterns)
            found.append(Statement(Effect.ALLOW, actions, resources))
    return found


def is_of_vhost(statement: Statement, namespace: str) -> bool:
    """True if `statements_of` may have made the statement for the namespace."""
    return (
        statement.effect is Effect.ALLOW
        and statement.actions in (_CONFIGURE, _WRITE, _READ)
        and not statement.sources
        and all(_pattern(resource, namespace) is not None for resource in statement.resources)
    )


def permission_of(statements: Iterable[Statement], namespace: str) -> VhostPermission | None:
    """Return the permission that statements like those of `statements_of` give in the namespace, or None."""
    said: dict[tuple[Action, ...], dict[str, None]] = {}
    for statement in statements:
        if is_of_vhost(statement, namespace):
            patterns = said.setdefault(statement.actions, {})
            patterns.update((_pattern(resource, namespace) or "", None) for resource in statement.resources)
    if not said:
        return None
    return VhostPermission(*(_expression(said.get(actions, {})) for actions in (_CONFIGURE, _WRITE, _READ)))


# -- expressions -----------------------------------------------------------------------------------------------------


def patterns_of(expression: str) -> tuple[str, ...]:
    """Return the patterns of an expression: names, prefixes (`app*`) and `#` for everything.  Raises BAD_REQUEST."""
    if len(expression) > MAX_EXPRESSION_LENGTH:
        raise EntrepotError(Code.BAD_REQUEST, f"a permission has up to {MAX_EXPRESSION_LENGTH} characters")
    if expression in ("", NOTHING):
        return ()
    if expression in (EVERYTHING, "^.*", ".*$", "^.*$"):
        return (_OF_ALL,)
    tokens = _tokens(expression)
    if tokens[:2] == [_BEGIN, _OPEN] and tokens.count(_CLOSE) == 1:
        at = tokens.index(_CLOSE)
        ending = tokens[at + 1 :]
        if ending not in ([_END], [], [_ANY, _MANY], [_ANY, _MANY, _END]):
            raise _refusal(expression, "nothing but $ or .* follows a group")
        found = [_pattern_of(part, ending != [_END], expression) for part in _alternatives(tokens[2:at])]
    else:
        found = [_pattern_of_whole(part, expression) for part in _alternatives(tokens)]
    return tuple(dict.fromkeys(found))


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


def _pattern_of_whole(tokens: list[Token], expression: str) -> str:
    if tokens[:1] != [_BEGIN]:
        raise _refusal(expression, "it is to begin with ^")
    is_closed = tokens[-1] == _END
    return _pattern_of(tokens[1:-1] if is_closed else tokens[1:], not is_closed, expression)


def _pattern_of(tokens: list[Token], is_open: bool, expression: str) -> str:
    """Return the pattern of one alternative.  `is_open`: more characters may follow."""
    if tokens[-2:] == [_ANY, _MANY]:
        tokens, is_open = tokens[:-2], True
    for character, is_literal in tokens:
        if not is_literal:
            raise _refusal(expression, f"{character!r} is not part of a name; write \\{character} where it is one")
    name = "".join(character for character, _ in tokens)
    if _WILD.intersection(name):
        raise _refusal(expression, "names with * + # $ cannot be said here")
    if not name and not is_open:
        raise _refusal(expression, "one of its names is empty")
    return (f"{name}*" if name else _OF_ALL) if is_open else name


def _expression(patterns: Iterable[str]) -> str:
    found = list(patterns)
    if _OF_ALL in found:
        return EVERYTHING
    if not found:
        return NOTHING
    parts = [_escaped(each[:-1]) + ".*" if each.endswith("*") else _escaped(each) for each in found]
    return f"^{parts[0]}$" if len(parts) == 1 else f"^({'|'.join(parts)})$"


def _escaped(name: str) -> str:
    return "".join(f"\\{each}" if each in _SPECIAL or each == "\\" else each for each in name)


# -- resources -------------------------------------------------------------------------------------------------------


def _resource(kind: str, namespace: str, pattern: str) -> str:
    prefix = "" if namespace == DEFAULT_NAMESPACE else f"{NAMESPACE_LEVEL}/{namespace}/"
    if pattern == _OF_ALL:
        return f"{kind}:{prefix}*" if prefix else f"{kind}:{_OF_ALL}"
    if pattern.endswith("*"):
        beginning = encoded_name(pattern[:-1])
        if len(beginning) > MAX_KEPT_PREFIX:
            raise _refusal(pattern, "the beginning of its names is too long")
        return f"{kind}:{prefix}{beginning}*"
    name = encoded_name(pattern)
    if decoded_name(name) is None:
        raise _refusal(pattern, "the name is too long")
    return f"{kind}:{prefix}{name}{_SUB_TOPICS if kind == 'Topic' else ''}"


def _pattern(resource: str, namespace: str) -> str | None:
    """Return the pattern of a resource that `_resource` made for the namespace, or None for any other resource."""
    kind, _, text = resource.partition(":")
    if kind not in ("Topic", "Group"):
        return None
    if namespace != DEFAULT_NAMESPACE:
        prefix = f"{NAMESPACE_LEVEL}/{namespace}/"
        if not text.startswith(prefix):
            return None
        text = text.removeprefix(prefix)
        if text == "*":
            return _OF_ALL
    elif text == _OF_ALL:
        return _OF_ALL
    ending = "*" if text.endswith("*") else _SUB_TOPICS if kind == "Topic" else ""
    name = decoded_name(text.removesuffix(ending)) if text.endswith(ending) else None
    if not name or _WILD.intersection(name):
        return None
    return f"{name}*" if ending == "*" else name


def _refusal(expression: str, reason: str) -> EntrepotError:
    return EntrepotError(
        Code.BAD_REQUEST,
        f"the permission {expression[:120]!r} cannot be said here: {reason}. It takes names and beginnings of names, "
        "such as ^(orders|app-.*)$, .* for everything, and nothing for nothing",
    )
