"""The CloudEvent, and the rules of its context attributes (CloudEvents 1.0.2, sections 2 and 3).

Invariant: every attribute has one canonical string form, whatever type it came as.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from entrepot.protocols.cloudevents import media_type
from entrepot.protocols.cloudevents.errors import CloudEventError

SPEC_VERSION: Final = "1.0"
MAX_ATTRIBUTES: Final = 128
"""Most context attributes of an event."""
MAX_ATTRIBUTE_NAME_LENGTH: Final = 128
"""Longest attribute name accepted.  The specification's 20 is a SHOULD, so longer ones are not an error."""
MAX_ATTRIBUTE_VALUE_BYTES: Final = 65_535
"""Largest attribute value, in UTF-8.  As large as an MQTT string, so that an event of 64 KiB is forwarded with any long
attribute (size limits of the core)."""

REQUIRED_ATTRIBUTES: Final = ("id", "source", "type", "specversion")
CORE_ATTRIBUTES: Final = frozenset({*REQUIRED_ATTRIBUTES, "datacontenttype", "dataschema", "subject", "time"})
"""The attributes that the specification defines (3.1); every other one is an extension (3.2)."""
RESERVED_NAMES: Final = frozenset({"data"})

MIN_INTEGER: Final = -(2**31)
MAX_INTEGER: Final = 2**31 - 1

_NAME = re.compile(r"[a-z0-9]+")
_NONCHARACTERS = "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(17))
_DISALLOWED = re.compile(f"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef{_NONCHARACTERS}]")
_TIME = re.compile(
    r"(\d{4})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[Tt](?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?"
    r"(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+")
_SURELY_FITS = MAX_ATTRIBUTE_VALUE_BYTES // 4


class ExtensionType(StrEnum):
    """Types of extensions other than String: the other types of JSON (JSON format 2.2)."""

    BOOLEAN = "b"
    INTEGER = "i"


NO_TYPED_EXTENSIONS: Final[Mapping[str, ExtensionType]] = MappingProxyType({})


@dataclass(slots=True)
class CloudEvent:
    """An event: its context attributes in order, and its data as opaque bytes (None: no data).

    Every attribute has its canonical string form (2.1); `typed_extensions` has the types of extensions that came as
    JSON booleans or integers, for JSON output.  `implied_json`: the data came as a JSON value without a
    `datacontenttype`, which then is application/json in every other encoding (JSON format 3.1.2).

    The constructor checks nothing: call `check_attributes` on values from outside, as the decoders do.
    """

    attributes: dict[str, str]
    data: bytes | None = None
    typed_extensions: Mapping[str, ExtensionType] = field(default_factory=lambda: NO_TYPED_EXTENSIONS)
    implied_json: bool = False

    @property
    def id(self) -> str:
        return self.attributes["id"]

    @property
    def source(self) -> str:
        return self.attributes["source"]

    @property
    def type(self) -> str:
        return self.attributes["type"]

    @property
    def subject(self) -> str | None:
        return self.attributes.get("subject")

    @property
    def datacontenttype(self) -> str | None:
        return self.attributes.get("datacontenttype")


def is_attribute_name(name: str) -> bool:
    """True for a valid attribute name: lower-case ASCII letters and digits, and not `data` (3)."""
    return len(name) <= MAX_ATTRIBUTE_NAME_LENGTH and _NAME.fullmatch(name) is not None and name not in RESERVED_NAMES


def check_name(name: str) -> None:
    """Raise for an invalid attribute name."""
    if not is_attribute_name(name):
        raise CloudEventError(
            f"{name[:80]!r} is not an attribute name: 1 to {MAX_ATTRIBUTE_NAME_LENGTH} characters "
            "out of a-z and 0-9, and not 'data'",
            name,
        )


def escape_disallowed(text: str, escape: Callable[[str], str]) -> str:
    """Return the text with each character that a String may not have (2.1) replaced."""
    return _DISALLOWED.sub(lambda found: escape(found[0]), text)


def check_value(name: str, value: str) -> None:
    """Raise unless the value is a String (2.1) within the limit, and meets the attribute's own rule (3.1)."""
    bad = _DISALLOWED.search(value)
    if bad is not None:
        raise CloudEventError(f"attribute {name!r} has the character U+{ord(bad[0]):04X}, which is not allowed", name)
    if len(value) > _SURELY_FITS and len(value.encode()) > MAX_ATTRIBUTE_VALUE_BYTES:
        raise CloudEventError(f"attribute {name!r} is longer than {MAX_ATTRIBUTE_VALUE_BYTES} bytes", name)
    rule = _RULES.get(name)
    if rule is not None:
        rule(name, value)


def check_attributes(attributes: dict[str, str]) -> None:
    """Raise unless these are the context attributes of a valid event.  Decoders check the names."""
    values = "".join(attributes.values())
    if len(values) > _SURELY_FITS or not (values.isascii() and values.isprintable()):
        for name, value in attributes.items():
            check_value(name, value)
    get = attributes.get
    if not (get("id") and get("source") and get("type")) or get("specversion") != SPEC_VERSION:
        for name in REQUIRED_ATTRIBUTES:
            _check_required(name, get(name))
    if len(attributes) > len(REQUIRED_ATTRIBUTES):
        if len(attributes) > MAX_ATTRIBUTES:
            raise CloudEventError(f"the event has {len(attributes)} attributes; at most {MAX_ATTRIBUTES} are taken")
        for name, rule in _OPTIONAL_RULES:
            optional = get(name)
            if optional is not None:
                rule(name, optional)


def _check_required(name: str, value: str | None) -> None:
    if value is None:
        raise CloudEventError(f"the required attribute {name!r} is missing", name)
    _RULES[name](name, value)


def _check_non_empty(name: str, value: str) -> None:
    if not value:
        raise CloudEventError(f"attribute {name!r} is empty", name)


def _check_specversion(name: str, value: str) -> None:
    if value != SPEC_VERSION:
        raise CloudEventError(f"attribute {name!r} is {value[:80]!r}; only {SPEC_VERSION!r} is supported", name)


def _check_time(name: str, value: str) -> None:
    found = _TIME.fullmatch(value)
    if found is not None:
        year, month, day = found.groups()
        if day <= "28" or _is_day(int(year), int(month), int(day)):
            return
    raise CloudEventError(f"attribute {name!r} is {value[:80]!r}, which is not an RFC 3339 timestamp", name)


def _is_day(year: int, month: int, day: int) -> bool:
    try:
        date(year or 400, month, day)
    except ValueError:
        return False
    return True


def _check_dataschema(name: str, value: str) -> None:
    if _URI.fullmatch(value) is None:
        raise CloudEventError(f"attribute {name!r} is {value[:80]!r}, which is not an absolute URI", name)


def _check_datacontenttype(name: str, value: str) -> None:
    if not media_type.is_media_type(value):
        raise CloudEventError(f"attribute {name!r} is {value[:80]!r}, which is not a media type", name)


_Rule = Callable[[str, str], None]
_OPTIONAL_RULES: Final[tuple[tuple[str, _Rule], ...]] = (
    ("time", _check_time),
    ("subject", _check_non_empty),
    ("datacontenttype", _check_datacontenttype),
    ("dataschema", _check_dataschema),
)
_RULES: Final[Mapping[str, _Rule]] = {
    "id": _check_non_empty,
    "source": _check_non_empty,
    "type": _check_non_empty,
    "specversion": _check_specversion,
    **dict(_OPTIONAL_RULES),
}
