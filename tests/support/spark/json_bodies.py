"""Bodies of every kind with what becomes of them, and random ones; and what Python's own reader says of a body."""

from __future__ import annotations

import json
from random import Random
from typing import Any, Final, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

from entrepot.protocols.wire.json_rules import MAX_BYTES, MAX_DEPTH

FIELDS: Final = [
    pa.field("n", pa.int64()),
    pa.field("f", pa.float64()),
    pa.field("g", pa.float32()),
    pa.field("s", pa.string()),
    pa.field("o", pa.struct([pa.field("x", pa.float64()), pa.field("l", pa.list_(pa.float32()))])),
]
DDL: Final = "n bigint, f double, g float, s string, o struct<x: double, l: array<float>>"


class Body(NamedTuple):
    """A body.  `fault`: part of the reason why it is no JSON; `misfits`: reasons, by path, why values are
    rescued under FIELDS; `row`: its values that are not null."""

    name: str
    body: bytes
    fault: str = ""
    misfits: dict[str, str] = {}  # nobody changes it
    row: dict[str, Any] = {}  # nor this


def nested(levels: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    """A body of that depth, of which the outermost level is an object."""
    return b'{"z": ' + opening * (levels - 1) + closing * (levels - 1) + b"}"


BODIES: Final = [
    # text
    Body("text", '{"s": "°C"}'.encode(), row={"s": "°C"}),
    Body("Latin-1", '{"s": "°C"}'.encode("latin-1"), "not UTF-8: byte 7"),
    Body("Latin-1 in a field without a column", b'{"z": "\xb0C"}', "not UTF-8: byte 7"),
    Body("Latin-1 in a name", b'{"\xb0": 1}', "not UTF-8: byte 2"),
    Body("raw bytes", b'{"s": "\xf0H\x85"}', "not UTF-8"),
    Body("an overlong form", b'{"s": "\xc0\x80"}', "not UTF-8"),
    Body("beyond Unicode", b'{"s": "\xf4\x90\x80\x80"}', "not UTF-8"),
    Body("half of a pair in UTF-8", b'{"s": "\xed\xa0\x80"}', "not UTF-8"),
    Body("a high half, escaped", b'{"s": "\\ud800"}', "surrogate"),
    Body("a low half, escaped", b'{"z": "\\udc00"}', "surrogate"),
    Body("a high half and a letter", b'{"z": "\\ud800\\u0041 and more"}', "surrogate"),
    Body("a high half, and more behind", b'{"z": "\\ud800", "n": 1}', "surrogate"),
    Body("a pair, escaped", b'{"s": "\\ud83d\\ude00"}', row={"s": "😀"}),
    Body("NUL, escaped", b'{"s": "a\\u0000b"}', row={"s": "a\0b"}),
    Body("NUL in a text", b'{"s": "a\0b"}', "malformed"),
    Body("NUL behind", b'{"n": 1}\0', "not one JSON object"),
    Body("a line feed in a text", b'{"s": "a\nb"}', "malformed"),
    Body("a byte order mark", b'\xef\xbb\xbf{"n": 1}', "not one JSON object"),
    Body("a byte order mark in a text", b'{"s": "\xef\xbb\xbf"}', row={"s": "\ufeff"}),
    Body("UTF-16", '{"n": 1}'.encode("utf-16"), "not one JSON object"),
    # numbers
    Body("NaN", b'{"f": NaN}', "malformed"),
    Body("NaN without a column", b'{"z": [1, NaN]}', "malformed"),
    Body("Infinity", b'{"f": Infinity}', "malformed"),
    Body("-Infinity", b'{"f":-Infinity}', "malformed"),
    Body("Inf", b'{"z": [Inf]}', "malformed"),
    Body("NaN as a text", b'{"s": "NaN", "NaN": "Infinity"}', row={"s": "NaN"}),
    Body("beyond doubles", b'{"f": 1e400}', misfits={"f": "does not fit double"}),
    Body("a whole number beyond doubles", b'{"f": ' + b"9" * 400 + b"}", misfits={"f": "does not fit double"}),
    Body("beyond doubles without a column", b'{"n": 1, "z": 1e400}', row={"n": 1}),
    Body("5,000 digits without a column", b'{"n": 1, "z": ' + b"9" * 5000 + b"}", row={"n": 1}),
    Body("beyond a bigint", b'{"n": 9223372036854775808}', misfits={"n": "does not fit bigint"}),
    Body("a great bigint", b'{"n": 9223372036854775807}', row={"n": 2**63 - 1}),
    Body("a point in a bigint", b'{"n": 1.0}', misfits={"n": "does not fit bigint"}),
    Body("beyond a float", b'{"g": 1e39}', misfits={"g": "does not fit float"}),
    Body("beyond a float, in a list", b'{"o": {"l": [1, 1e39]}}', misfits={"o.l": "does not fit array<float>"},
         row={"o": {"x": None, "l": None}}),
    Body("a float between two", b'{"g": 16777217.000000001}', row={"g": 16777216.0}),
    Body("a zero with a sign", b'{"f": -0, "g": -0.0, "o": {"x": -0, "l": [-0, -0.0]}}',
         row={"f": 0.0, "g": 0.0, "o": {"x": 0.0, "l": [0.0, 0.0]}}),
    Body("a leading zero", b'{"z": 01}', "malformed"),
    # names
    Body("a repeated name", b'{"n": 1, "n": 2}', row={"n": 2}),
    Body("a repeated name without a column", b'{"n": 1, "z": 1, "z": 2}', row={"n": 1}),
    Body("a repeated name in an object", b'{"o": {"x": 1, "x": 2}}', row={"o": {"x": 2.0, "l": None}}),
    Body("a repeated name, one of another type", b'{"n": "a", "n": 2}', row={"n": 2}),
    Body("an escaped name", b'{"\\u006e": 7}', row={"n": 7}),
    # depth and size
    Body("as deep as allowed", nested(MAX_DEPTH)),
    Body("objects as deep as allowed", nested(MAX_DEPTH, b'{"a":', b"}").replace(b":}", b":1}", 1)),
    Body("a level too deep", nested(MAX_DEPTH + 1), "deeper than 128 levels"),
    Body("100,000 levels", nested(100_000), "deeper than 128 levels"),
    Body("100,000 opened and not closed", b'{"z": ' + b"[" * 100_000 + b"}", "deeper than 128 levels"),
    Body("100,000 of nothing else", b"[" * 100_000, "not one JSON object"),
    Body("as deep as allowed, and more beside", nested(MAX_DEPTH).replace(b"}", b', "y": [[]]}')),
    Body("many brackets side by side", b'{"z": [' + b"[]," * 500 + b"[]]}"),
    Body("brackets in a text", b'{"s": "\\"' + b"[" * 200 + b'"}', row={"s": '"' + "[" * 200}),
    Body("as long as allowed", b'{"z": "' + b"a" * (MAX_BYTES - 9) + b'"}'),
    Body("a byte too long", b'{"z": "' + b"a" * (MAX_BYTES - 8) + b'"}', "longer than 16777216 bytes"),
    # other forms
    Body("spaces and lines around", b' \r\n\t{"n":\n1}\n', row={"n": 1}),
    Body("a form feed behind", b'{"n": 1}\x0c', "not one JSON object"),
    Body("nothing", b"", "not one JSON object"),
    Body("only spaces", b" \n", "not one JSON object"),
    Body("null", b"null", "not one JSON object"),
    Body("a list", b"[1]", "not one JSON object"),
    Body("two objects", b'{"n": 1}{"n": 2}', "malformed"),
    Body("two objects in two lines", b'{"n": 1}\n{"n": 2}', "malformed"),
    Body("cut short", b'{"n": 1', "not one JSON object"),
    Body("a comma too many", b'{"n": 1,}', "malformed"),
    Body("an empty object", b"{}"),
    Body("nulls", b'{"n": null, "f": null, "o": null}'),
    Body("a field of another type", b'{"s": 5}', misfits={"s": "does not fit string"}),
    Body("another type beside", b'{"s": 5, "n": 1}', misfits={"s": "does not fit string"}, row={"n": 1}),
    Body("an object for a text", b'{"s": {"a": "\xc2\xb0"}}', misfits={"s": "does not fit string"}),
    Body("a number for an object", b'{"o": 1}', misfits={"o": "does not fit struct<x:double,l:array<float>>"}),
    Body("another case", b'{"n": 1, "N": 2}', misfits={"N": "differs from n only in case"}, row={"n": 1}),
    Body("another case alone, escaped", b'{"\\u004e": 2}', misfits={"N": "differs from n only in case"}),
    Body("another case in an object", b'{"o": {"x": 1, "X": 2}}', misfits={"o.X": "differs from x only in case"},
         row={"o": {"x": 1.0, "l": None}}),
]  # fmt: skip
SHORT: Final = [each for each in BODIES if len(each.body) < 1 << 20]
"""Those of a size that brokers take unless told otherwise."""

_VALUES: Final = [
    b"1", b"-0", b"-0.0", b"0.1", b"1e39", b"1e400", b"9" * 400, b"NaN", b"Infinity", b"-Infinity", b"null", b"true",
    b'"a"', b'"\xb0"', '"°"'.encode(), b'"\\ud800"', b'"\\ud83d\\ude00"', b'"a\0"', b'"NaN"', b"[1, 2]", b"[null]",
    b"[NaN]", b"{}", b'{"x": -0}', b'{"x": 1, "x": 2}', b'{"l": [0.1, -0]}', b'{"l": [1e39]}', b'{"y": [{}]}',
    b'{"X": 1, "x": "a"}',
    b"[" * 200 + b"]" * 200, b"[" * 127 + b"]" * 127, b"9223372036854775808", b"01", b"tru", b'"', b"{", b"}", b"",
]  # fmt: skip
_NAMES: Final = [
    b'"n"',
    b'"N"',
    b'"\\u004e"',
    b'"O"',
    b'"f"',
    b'"g"',
    b'"s"',
    b'"o"',
    b'"z"',
    b'"zz"',
    b'"\\u006e"',
    b'""',
    b'"\xff"',
]
_AROUND: Final = [b"", b"", b"", b"", b" ", b"\n", b"\0", b"\xef\xbb\xbf", b"}", b"{", b"{}", b"null"]


def _body(pairs: list[tuple[bytes, bytes]], before: bytes, behind: bytes) -> bytes:
    return before + b"{" + b",".join(name + b":" + value for name, value in pairs) + b"}" + behind


AROUND: Final = st.sampled_from(_AROUND)
PAIRS: Final = st.lists(st.tuples(st.sampled_from(_NAMES), st.sampled_from(_VALUES)), max_size=3)
RANDOM: Final = (
    st.builds(_body, PAIRS, AROUND, AROUND)
    | st.builds(_body, PAIRS, st.just(b""), st.just(b""))
    | st.sampled_from([each.body for each in SHORT if len(each.body) < 10_000])
    | st.binary(max_size=8)
)
"""Bodies, half of them with some fault."""


def random_bodies(random: Random, count: int) -> list[bytes]:
    """As many bodies, without hypothesis."""
    found = []
    for _ in range(count):
        pairs = [(random.choice(_NAMES), random.choice(_VALUES)) for _ in range(random.choice((0, 1, 1, 1, 2, 3)))]
        around = _AROUND if random.random() < 0.3 else [b""]
        found.append(_body(pairs, random.choice(around), random.choice(around)))
    return found


def is_json_object(body: bytes) -> bool:
    """The rule but for depth and size, by Python's reader."""

    def refuse(word: str) -> Any:
        raise ValueError(word)

    try:
        text = body.decode().strip(" \t\n\r")
        # pairs, so that each value of a repeated name is looked at
        value = json.loads(text, parse_constant=refuse, parse_int=float, object_pairs_hook=lambda pairs: pairs)
        json.dumps(value, ensure_ascii=False).encode()  # raises for a half of a pair
    except (ValueError, RecursionError):
        return False
    return text.startswith("{")
