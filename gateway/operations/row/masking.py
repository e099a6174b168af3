"""Masking: fields of messages that only super users are shown, by rules of the settings.

A body is masked as JSON.  Where a rule names fields and the body is neither a JSON object nor an array, it is hidden.
A rule holds for messages of its topics wherever they lie: in dead letters, retries and queues, too.  Time and memory
are linear in the message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from entrepot.domain.message import (
    PropertyValue,
    StoredMessage,
    SystemProperty,
    as_texts,
    dead_letter_origin,
    of_texts,
)
from entrepot.domain.names import split_name
from entrepot.gateway.settings.listeners import MaskRule

MASK: Final = "***"
_EVENT_PREFIXES: Final = ("ce_", "ce-")
"""Beginnings of a CloudEvents attribute's name as a property and as a header."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A message as a caller is shown it.  `body`: None where it is hidden.  `is_masked`: something is left out."""

    message: StoredMessage
    body: bytes | None
    properties: Sequence[tuple[str, PropertyValue]]
    system: Mapping[str, PropertyValue]
    is_masked: bool = False

    def as_message(self) -> StoredMessage:
        """The message that a filter of the caller sees."""
        if not self.is_masked:
            return self.message
        return replace(
            self.message, body=self.body or b"", properties=tuple(self.properties), system=of_texts(self.system)
        )


def unmasked(message: StoredMessage) -> Shown:
    """The whole message."""
    return Shown(message, message.body, message.properties, as_texts(message.system))


class Masking:
    """The rules of the settings."""

    def __init__(self, rules: Sequence[MaskRule]) -> None:
        self._rules = rules

    def shown(self, message: StoredMessage) -> Shown:
        """The message without the fields and headers of its rules."""
        rules = [rule for rule in self._rules if any(map(rule.is_for, _topics_of(message)))]
        if not rules:
            return unmasked(message)
        fields = [field for rule in rules for field in rule.fields]
        headers = {_header(name) for rule in rules for name in rule.headers}
        body = _masked_body(message.body, fields) if fields else message.body
        return Shown(
            message,
            body,
            [(name, _masked_header(name, value, headers)) for name, value in message.properties],
            {name: _masked_system(name, value, headers) for name, value in as_texts(message.system).items()},
            is_masked=True,
        )


def _topics_of(message: StoredMessage) -> set[str]:
    """The names of the topics that a message was sent to or lies in, each as the API's paths have it."""
    origin = dead_letter_origin(message)
    fed_from = (message.system_text(SystemProperty.FED_FROM) or "").split(" ", 2)
    named = (
        message.topic,
        message.sub_topic.partition("/")[0],
        message.system_text(SystemProperty.RETRY_TOPIC),
        message.system_text(SystemProperty.SENT_TO),
        origin[0] if origin is not None else None,
        fed_from[2] if len(fed_from) == 3 else None,
    )
    return {split_name(name)[1] for name in named if name}


def _header(name: str) -> str:
    lowered = name.lower()
    return lowered[3:] if lowered.startswith(_EVENT_PREFIXES) else lowered


def _masked_header(name: str, value: PropertyValue, headers: set[str]) -> PropertyValue:
    return MASK if _header(name) in headers else value


def _masked_system(name: str, value: PropertyValue, headers: set[str]) -> PropertyValue:
    has_headers = name in (SystemProperty.AMQP, SystemProperty.AMQP_BCC) and bool(
        headers
    )  # all headers as the client encoded them
    return MASK if has_headers else _masked_header(name, value, headers)


def _masked_body(body: bytes, fields: Iterable[str]) -> bytes | None:
    """The JSON body, encoded anew with the mask in place of the fields' values; None for other bodies."""
    if not body:
        return body
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict | list):
        return None
    names = set()
    for field in fields:
        if field.startswith("/"):
            _mask_at(document, [_step(step) for step in field[1:].split("/")])
        else:
            names.add(field)
    if names:
        _mask_named(document, names)
    try:
        return orjson.dumps(document)
    except TypeError:  # deeper than it can be written
        return None


def _step(text: str) -> str:
    """A step of a JSON pointer (RFC 6901)."""
    return text.replace("~1", "/").replace("~0", "~")


def _mask_at(document: Any, steps: Sequence[str]) -> None:
    *inner, last = steps
    place = document
    for step in inner:
        place = _child(place, step)
    if isinstance(place, dict) and last in place:
        place[last] = MASK
    elif isinstance(place, list) and _is_index(last, place):
        place[int(last)] = MASK


def _child(place: Any, step: str) -> Any:
    if isinstance(place, dict):
        return place.get(step)
    return place[int(step)] if isinstance(place, list) and _is_index(step, place) else None


def _is_index(step: str, place: list[Any]) -> bool:
    return step.isascii() and step.isdecimal() and len(step) < 10 and int(step) < len(place)


def _mask_named(document: Any, names: set[str]) -> None:
    """Mask members of these names at any depth."""
    waiting = [document]
    while waiting:
        place = waiting.pop()
        if isinstance(place, dict):
            for name, value in place.items():
                if name in names:
                    place[name] = MASK
                elif isinstance(value, dict | list):
                    waiting.append(value)
        else:
            waiting += [value for value in place if isinstance(value, dict | list)]
