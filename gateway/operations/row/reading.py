"""Reading of queries and JSON bodies into structs; faults are told with the place first.

Numbers and truth values of a query are texts.  They are read as leniently as ever: `+5`, `05`, `yes`, `on`.  Bodies are
exact.  The sentences are those that clients of earlier versions know.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import orjson
from msgspec import Struct, UnsetType

from entrepot.gateway.operations.row.problem import bad_request

_S = TypeVar("_S", bound=Struct)
_WHOLE: Final = re.compile(r"\s*([+-]?[0-9]+(?:_[0-9]+)*)(?:\.0+)?\s*", re.ASCII)
_TRUTHS: Final = {
    **dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True),
    **dict.fromkeys(("0", "off", "f", "false", "n", "no"), False),
}
_BOUNDS: Final = (
    (re.compile(r"Expected `str` matching regex '(.*)'"), "String should match pattern '{}'"),
    (re.compile(r"Expected `(?:int|float)` <= (\S+)"), "Input should be less than or equal to {}"),
    (re.compile(r"Expected `(?:int|float)` >= (\S+)"), "Input should be greater than or equal to {}"),
    (re.compile(r"Expected `str` of length <= (\d+)"), "String should have at most {} characters"),
    (re.compile(r"Expected `str` of length >= (\d+)"), "String should have at least {} characters"),
    (re.compile(r"Expected `array` of length <= (\d+)"), "List should have at most {} items"),
    (re.compile(r"Expected `array` of length >= (\d+)"), "List should have at least {} items"),
    (re.compile(r"Expected `object` of length <= (\d+)"), "Dictionary should have at most {} items"),
)
_WORDS: Final = {
    "int": "a valid integer",
    "float": "a valid number",
    "str": "a valid string",
    "bool": "a valid boolean",
    "array": "a valid array",
    "object": "an object",
}
_KIND: Final = re.compile(r"Expected `(int|float|str|bool|array|object)(?: \| null)?`, got `")
_MISSING: Final = re.compile(r"Object missing required field `([^`]*)`")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `([^`]*)`")


def read_query(kind: type[_S], pairs: Iterable[tuple[str, str]], where: str = "") -> _S:
    """Return the parameters of a query; unknown ones count as none.  Raises BAD_REQUEST, which begins with `where`."""
    readers, found = _readers(kind), dict[str, Any]()
    for name, text in pairs:
        if name in readers:
            found[name] = text
    read = {name: _read(readers[name], where + name, text) for name, text in found.items()}
    try:
        return msgspec.convert(read, kind)
    except msgspec.ValidationError as error:
        raise bad_request(where + sentence(error, kind)) from None


def read_body(decoder: msgspec.json.Decoder[_S], raw: bytes) -> _S:
    """Return a JSON body; an empty one counts as `{}`.  Raises BAD_REQUEST."""
    try:
        return decoder.decode(raw or b"{}")
    except msgspec.ValidationError as error:
        raise bad_request(sentence(error, decoder.type)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"Invalid JSON: {error}") from None
    except RecursionError:
        raise bad_request("Invalid JSON: it is nested too deep") from None


def read_lenient(kind: type[_S], raw: bytes) -> _S:
    """Return a JSON body as RabbitMQ takes it; an empty one counts as `{}`.  Raises BAD_REQUEST."""
    try:
        given = orjson.loads(raw or b"{}")
    except orjson.JSONDecodeError as error:
        raise bad_request(f"Invalid JSON: {error}") from None
    if not isinstance(given, dict):
        raise bad_request("Input should be an object")
    return lenient(kind, given)


def lenient(kind: type[_S], given: Mapping[str, Any]) -> _S:
    """Return an object whose numbers and truth values may be texts, or each other.  Raises BAD_REQUEST."""
    readers = _readers(kind)
    found = {name: _lax(readers[name], name, value) for name, value in given.items() if name in readers}
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise bad_request(sentence(error, kind)) from None


def _lax(reader: Callable[[str], Any] | None, name: str, value: Any) -> Any:
    if reader is None:
        return value
    if isinstance(value, str):
        return _read(reader, name, value)
    if reader is truth and isinstance(value, int | float) and value in (0, 1):
        return bool(value)
    if reader is whole and (isinstance(value, bool) or (isinstance(value, float) and value.is_integer())):
        return int(value)
    return value


@cache
def _readers(kind: type[Struct]) -> Mapping[str, Callable[[str], Any] | None]:
    """Return the reader of each parameter's text; None where the text itself counts."""
    hints = get_type_hints(kind, include_extras=True)
    return {each.encode_name: _READERS.get(plain_of(hints[each.name])) for each in msgspec.structs.fields(kind)}


def _read(reader: Callable[[str], Any] | None, name: str, text: str) -> Any:
    if reader is None:
        return text
    try:
        return reader(text)
    except ValueError as error:
        raise bad_request(f"{name}: {error}") from None


def whole(text: str) -> int:
    """Return the number of a text.  Raises ValueError."""
    found = _WHOLE.fullmatch(text)
    if found is None or len(text) > 4300:
        raise ValueError("Input should be a valid integer, unable to parse string as an integer")
    return int(found[1])


def whole_name(name: str, text: str) -> int:
    """Return a number of the path.  Raises BAD_REQUEST."""
    return int(_read(whole, name, text))


def number(text: str) -> float:
    """Return the number of a text, which may have a fraction.  Raises ValueError."""
    try:
        found = float(text)
    except ValueError:
        raise ValueError("Input should be a valid number, unable to parse string as a number") from None
    if not math.isfinite(found):
        raise ValueError("Input should be a finite number")
    return found


def truth(text: str) -> bool:
    """Return the truth value of a text.  Raises ValueError."""
    found = _TRUTHS.get(text.lower())
    if found is None:
        raise ValueError("Input should be a valid boolean, unable to interpret input")
    return found


_READERS: Final[Mapping[Any, Callable[[str], Any]]] = {int: whole, float: number, bool: truth}


def plain_of(kind: Any) -> Any:
    """Return the type of a field without limits, null and UNSET."""
    kind = _without_limits(kind)
    if get_origin(kind) in (Union, UnionType):
        several = [each for each in get_args(kind) if each not in (NoneType, UnsetType)]
        return plain_of(several[0]) if len(several) == 1 else kind
    return kind


def sentence(error: msgspec.ValidationError, kind: Any) -> str:
    """Return the fault with its place first: `maxAttempts: Input should be a valid integer`."""
    text, _, place = str(error).partition(" - at `$")
    steps = [step for step in re.split(r"[.\[\]`]+", place) if step]
    for pattern, told in ((_MISSING, "Field required"), (_UNKNOWN, "Extra inputs are not permitted")):
        if found := pattern.match(text):
            return f"{'.'.join((*steps, found[1]))}: {told}"
    told = _told(text, _field_at(kind, steps))
    return f"{'.'.join(steps)}: {told}" if steps else told


def _told(text: str, kind: Any) -> str:
    for pattern, words in _BOUNDS:
        if found := pattern.match(text):
            told = words.format(found[1].replace(r"\\Z", "$"))  # as the document has it
            return told.removesuffix("s") if found[1] == "1" else told
    if text.endswith("got `null`") and _may_be_omitted(kind):
        return "must not be null"
    if text.startswith(("Invalid enum value", "Expected `str`")) and (values := _values_of(kind)):
        *most, last = (f"'{value}'" for value in values)
        return f"Input should be {', '.join(most)} or {last}" if most else f"Input should be {last}"
    found = _KIND.match(text)
    return f"Input should be {_WORDS[found[1]]}" if found else text.replace("`", "")


def _without_limits(kind: Any) -> Any:
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    return kind


def _values_of(kind: Any) -> list[Any]:
    plain = plain_of(kind)
    if get_origin(plain) is Literal:
        return list(get_args(plain))
    return [each.value for each in plain] if isinstance(plain, type) and issubclass(plain, Enum) else []


def _may_be_omitted(kind: Any) -> bool:
    return UnsetType in get_args(_without_limits(kind))


def _field_at(kind: Any, steps: list[str]) -> Any:
    """Return the type at a place of a struct; None where that is not told."""
    for step in steps:
        plain = plain_of(kind)
        if get_origin(plain) is list:
            (kind,) = get_args(plain)
            continue
        if not (isinstance(plain, type) and issubclass(plain, Struct)):
            return None
        hints = get_type_hints(plain, include_extras=True)
        kind = next((hints[f.name] for f in msgspec.structs.fields(plain) if f.encode_name == step), None)
    return kind
