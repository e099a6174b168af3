"""What sessions are in the key-values: values come back as they were, and no two clients share a key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.key_value import KeyValueChange, check_changes
from entrepot.gateway.mqtt.sessions.record import (
    DUE_PREFIX,
    NEVER_EXPIRES,
    SESSION_PREFIX,
    TAKEN_PREFIX,
    WINDOW_PREFIX,
    OutgoingRecord,
    SessionRecord,
    SubscriptionRecord,
    WillRecord,
    WindowRecord,
    client_name,
    decode_session,
    decode_window,
    due_key,
    encode_record,
    merge_cursors,
)

TEXT = st.text(max_size=30)
TIMES = st.integers(0, 2**50)
CURSORS = st.dictionaries(TEXT, st.dictionaries(st.integers(0, 2000), st.integers(-(2**50), 2**50)))
PROPERTIES = st.dictionaries(st.integers(1, 42), st.one_of(st.integers(0, 2**32), TEXT, st.binary(max_size=9)))
WILLS = st.builds(
    WillRecord,
    TEXT,
    st.binary(max_size=50),
    st.integers(0, 2),
    st.booleans(),
    PROPERTIES,
    st.integers(0, NEVER_EXPIRES),
)
SUBSCRIPTIONS = st.builds(
    SubscriptionRecord, TEXT, st.integers(0, 2), st.booleans(), st.booleans(), st.integers(0, 2), st.integers(0, 2**28)
)
SESSIONS = st.builds(
    SessionRecord,
    TEXT,
    TIMES,
    TEXT,
    st.integers(3, 5),
    TEXT,
    st.integers(0, NEVER_EXPIRES),
    TIMES,
    TIMES,
    TIMES,
    TIMES,
    st.none() | WILLS,
    st.lists(SUBSCRIPTIONS, max_size=4),
    CURSORS,
    st.dictionaries(TEXT, CURSORS, max_size=2),
    TEXT,
    st.booleans(),
)
OUTGOING = st.builds(
    OutgoingRecord,
    st.integers(1, 65_535),
    TEXT,
    st.integers(-1, 2000),
    TIMES,
    st.integers(1, 2),
    st.integers(0, 1),
    st.booleans(),
    st.lists(st.integers(1, 2**28), max_size=3).map(tuple),
)
WINDOWS = st.builds(
    WindowRecord,
    TIMES,
    st.integers(0, 65_535),
    st.lists(OUTGOING, max_size=4),
    st.dictionaries(st.integers(1, 65_535), st.binary(min_size=16, max_size=16)),
    CURSORS,
    st.dictionaries(TEXT, CURSORS, max_size=2),
)
CLIENT_IDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=400)


@given(SESSIONS)
def test_a_session_comes_back(record: SessionRecord) -> None:
    assert decode_session(encode_record(record)) == record


@given(WINDOWS)
def test_a_window_comes_back(record: WindowRecord) -> None:
    assert decode_window(encode_record(record)) == record


def test_records_of_before_can_be_read() -> None:
    """Fields that were added later have their defaults."""
    assert decode_session(b"\x97\xa1c\x01\xa1g\x05\xa0\x00\x09") == SessionRecord("c", 1, "g", 5, "", 0, 9)
    assert decode_window(b"\x91\x07") == WindowRecord(7)


@given(CLIENT_IDS)
def test_every_client_id_makes_keys_that_the_store_takes(client_id: str) -> None:
    name = client_name(client_id)
    assert "/" not in name
    keys = [SESSION_PREFIX + name, WINDOW_PREFIX + name, due_key(2**49, name), f"{TAKEN_PREFIX}{'f' * 16}/{name}"]
    check_changes([KeyValueChange(key, b"") for key in keys])


@given(CLIENT_IDS, CLIENT_IDS)
def test_different_clients_have_different_names(one: str, other: str) -> None:
    assert (client_name(one) == client_name(other)) == (one == other)


def test_no_name_can_be_taken_for_another() -> None:
    odd = [
        "a/b",
        "a%2Fb",
        "a%252Fb",
        "#",
        "%23",
        "+",
        " ",
        "a b",
        "a+b",
        "é",
        "%C3%A9",
        "x" * 600,
        "x" * 601,
        "x" * 602,
    ]
    odd += ["é" * 100, "é" * 101, client_name("x" * 601), client_name("é" * 101), "session/a", "..", ".", '"', "\x7f"]
    assert len({client_name(each) for each in odd}) == len(odd)
    assert client_name("sensor-17.kitchen_a") == "sensor-17.kitchen_a"


@given(st.lists(st.tuples(st.integers(0, 2**49), st.sampled_from(["a", "~", "#0"])), unique=True))
def test_due_keys_are_in_the_order_of_time(dues: list[tuple[int, str]]) -> None:
    keys = sorted(due_key(at_ms, name) for at_ms, name in dues)
    times = [int(key.removeprefix(DUE_PREFIX).partition("/")[0]) for key in keys]
    assert times == sorted(at_ms for at_ms, _ in dues)


@given(CURSORS, CURSORS)
def test_what_moved_since_holds(cursors: dict, moved: dict) -> None:
    merged = merge_cursors(cursors, moved)
    flat = {
        (topic, queue): at
        for each in (cursors, moved)
        for topic, queues in each.items()
        for queue, at in queues.items()
    }
    assert {(topic, queue): at for topic, queues in merged.items() for queue, at in queues.items()} == flat


@given(SESSIONS)
def test_due_is_the_first_of_what_is_set(record: SessionRecord) -> None:
    times = [at for at in (record.expires_at_ms, record.will_at_ms) if at]
    assert record.due_at_ms == (min(times) if times else 0)
