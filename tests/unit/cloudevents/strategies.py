"""Valid events of every shape, as Hypothesis makes them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from entrepot.protocols.cloudevents.event import CORE_ATTRIBUTES, MAX_INTEGER, MIN_INTEGER, CloudEvent, ExtensionType

# A String's characters (core 2.1): no controls, no surrogates, no noncharacters.
characters = st.characters(blacklist_categories=("Cc", "Cs", "Cn"))
strings = st.text(characters, max_size=40)
non_empty = st.text(characters, min_size=1, max_size=40)
names = st.from_regex(r"[a-z0-9]{1,24}", fullmatch=True).filter(lambda name: name not in CORE_ATTRIBUTES | {"data"})
times = st.datetimes().map(lambda moment: moment.isoformat(timespec="milliseconds") + "Z")
json_types = st.sampled_from(["application/json", "application/vnd.x+json; charset=utf-8", "Text/JSON"])
text_types = st.sampled_from(["text/plain", "text/csv; charset=utf-8", "application/xml", "image/svg+xml"])
binary_types = st.sampled_from(["application/octet-stream", "image/png", "text/plain; charset=utf-16"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | strings,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(strings, inner, max_size=4),
    max_leaves=8,
)
json_texts = st.tuples(json_values, st.booleans()).map(
    lambda pair: json.dumps(pair[0], ensure_ascii=pair[1], indent=1 if pair[1] else None).encode()
)
typed_values = st.tuples(st.just(ExtensionType.INTEGER), st.integers(MIN_INTEGER, MAX_INTEGER).map(str)) | st.tuples(
    st.just(ExtensionType.BOOLEAN), st.sampled_from(["true", "false"])
)


@st.composite
def contents(draw: st.DrawFn) -> tuple[str | None, bytes | None]:
    """A datacontenttype and data, fitting or not."""
    kind = draw(st.sampled_from(["json", "text", "binary", "odd", "none"]))
    if kind == "json":
        return draw(st.none() | json_types), draw(json_texts)
    if kind == "text":
        return draw(text_types), draw(st.text(min_size=1, max_size=60)).encode("utf-8", "replace")
    if kind == "binary":
        return draw(binary_types), draw(st.binary(min_size=1, max_size=60))
    if kind == "odd":
        return draw(st.none() | json_types | text_types), draw(st.binary(min_size=1, max_size=60))
    return draw(st.none() | json_types), None


@st.composite
def events(draw: st.DrawFn, *, typed: bool = True) -> CloudEvent:
    attributes: dict[str, Any] = {
        "specversion": "1.0",
        "id": draw(non_empty),
        "source": draw(non_empty),
        "type": draw(non_empty),
    }
    if draw(st.booleans()):
        attributes["subject"] = draw(non_empty)
    if draw(st.booleans()):
        attributes["time"] = draw(times)
    content_type, data = draw(contents())
    if content_type is not None:
        attributes["datacontenttype"] = content_type
    attributes.update(draw(st.dictionaries(names, strings, max_size=4)))
    kinds = {}
    if typed:
        for name, (kind, value) in draw(st.dictionaries(names, typed_values, max_size=2)).items():
            attributes[name], kinds[name] = value, kind
    return CloudEvent(attributes, data, kinds)
