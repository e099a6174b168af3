"""Stored messages of any door: plain ones, and those at and beyond the edges of every protocol's value space."""

from __future__ import annotations

from hypothesis import strategies as st

from entrepot.domain.message import Properties, StoredMessage, SystemProperty, SystemValue

EDGES = (0, 1, 20, 126, 127, 128, 129, 254, 255, 256, 21_844, 65_534, 65_535, 65_536, 140_000)
"""Lengths around the limits of AMQP's short strings, names of headers, MQTT's strings and frames."""
PARTS = ("a", "é", "€", "😀", "\0", "\x1f", "\x85", "\ufffe", "\ufffd", " ", ".", "/", "+", "#", '"', "%", "\n")


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A text of some length, of usual and of odd characters."""
    size = draw(st.sampled_from(EDGES))
    unit = "".join(draw(st.lists(st.sampled_from(PARTS), min_size=1, max_size=3)))
    return draw(st.one_of(st.text(max_size=12), st.just((unit * size)[:size])))


@st.composite
def octets(draw: st.DrawFn) -> bytes:
    """Bytes of some length, often no UTF-8."""
    return draw(st.sampled_from((b"\xff", b"a", b"\0", b"\xc3\xa9"))) * draw(st.sampled_from(EDGES))


names = st.one_of(st.sampled_from(("unit", "ce_id", "ce_type", "ce_source", "ce_subject", "ce_time", "Ünit")), texts())
properties = st.lists(st.tuples(names, st.one_of(texts(), octets())), max_size=5).map(tuple)


@st.composite
def systems(draw: st.DrawFn) -> dict[str, SystemValue]:
    """Well-known properties, each present or not."""
    values: dict[str, st.SearchStrategy[SystemValue]] = {
        SystemProperty.CONTENT_TYPE: st.one_of(st.just("text/plain"), texts()),
        SystemProperty.REPLY_TO: texts(),
        SystemProperty.CORRELATION_ID: octets(),
        SystemProperty.PAYLOAD_IS_TEXT: st.sampled_from(("0", "1")),
        SystemProperty.EXPIRES_AT_MS: st.sampled_from((1, 5_000, 1 << 42, 999_999_999_999_999, 10**18)),
        SystemProperty.PRIORITY: st.one_of(st.sampled_from(("0", "255", "256", "999999999999", "-1")), texts()),
        SystemProperty.BORN_HOST: texts(),
        SystemProperty.PLAIN_NAMES: st.just("1"),
        SystemProperty.DELIVER_AT_MS: st.sampled_from((0, 1 << 41, 10**18)),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(values)), unique=True, max_size=4))
    return {name: draw(values[name]) for name in chosen}


@st.composite
def edge_messages(draw: st.DrawFn) -> StoredMessage:
    """A stored message that some door could have taken in."""
    below = draw(st.sampled_from(("", "/x", "/" + "é" * 200, "/" + "a" * 60_000, "/a" * 150, "/\x85", "/ .")))
    found: Properties = draw(properties)
    return StoredMessage(
        "plant",
        draw(st.sampled_from((b"", b"body", b"\xff" * 10, b'{"a": 1}'))),
        "plant" + below,
        0,
        draw(st.sampled_from((0, 1, 2))),
        draw(st.one_of(st.just(""), texts())),
        tuple(draw(st.lists(texts(), max_size=2))),
        draw(st.one_of(st.just(""), texts())),
        draw(st.sampled_from((b"", b"\x00" * 16, b"own id", b"\xff" * 255))),
        draw(st.sampled_from((0, 1_700_000_000_000, -5, 1 << 60))),
        0,
        found,
        draw(systems()),
        queue_offset=7,
    )
