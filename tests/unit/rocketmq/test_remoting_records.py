"""Records, batches, properties, receipts, names and signatures of RocketMQ's remoting protocol."""

from __future__ import annotations

import contextlib
import tracemalloc
import zlib
from base64 import b64decode
from dataclasses import replace
from typing import Any

import lz4.frame
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from entrepot.domain.errors import Code, CorruptedError, EntrepotError
from entrepot.domain.message import Message, SystemProperty
from entrepot.protocols.rocketmq.properties import SHARDING_KEY, is_plain
from entrepot.protocols.rocketmq.remoting import dialect, property_text
from entrepot.protocols.rocketmq.remoting.frames import Frame
from entrepot.protocols.rocketmq.remoting.message_ids import RecordPlace, offset_id, place_of
from entrepot.protocols.rocketmq.remoting.messages import (
    RECEIPT,
    UNIQUE_KEY,
    body_for,
    properties_for,
    stored_message,
)
from entrepot.protocols.rocketmq.remoting.names import Names
from entrepot.protocols.rocketmq.remoting.receipts import PopReceipt, batch_of, receipts_of
from entrepot.protocols.rocketmq.remoting.records import (
    COMPRESSED,
    INNER_BATCH,
    Record,
    decode_batch,
    decode_records,
    encode_batch,
    encode_record,
    inflated,
)
from entrepot.protocols.rocketmq.remoting.signing import signed
from tests.support.cases import cases

PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=30)
PROPERTIES = st.dictionaries(PLAIN, PLAIN, max_size=5)
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
WIDE, SHORT = st.integers(0, (1 << 63) - 1), st.integers(0, (1 << 31) - 1)
RECORDS = st.builds(
    Record,
    topic=st.text("abc%_-", min_size=1, max_size=200),
    queue_id=SHORT,
    queue_offset=WIDE,
    commit_log_offset=WIDE,
    body=st.binary(max_size=100),
    properties=PROPERTIES,
    flag=SHORT,
    born_time_ms=WIDE,
    born_host=st.sampled_from(["127.0.0.1", "::1"]),
    store_time_ms=WIDE,
    host=st.sampled_from(["10.0.0.9", "2001:db8::9"]),
    port=st.integers(1, 65535),
    reconsume_times=SHORT,
)
PARSED = Record("t", 1, 2, 3, b"body", {"a": "b"}, born_host="1.2.3.4", host="5.6.7.8", port=9)


@given(st.lists(RECORDS, max_size=4))
def test_records_come_back(records: list[Record]) -> None:
    found = decode_records(b"".join(map(encode_record, records)))
    assert [replace(each, sys_flag=0) for each in found] == records


@given(st.binary(max_size=400))
def test_any_bytes_are_records_or_refused(data: bytes) -> None:
    try:
        decode_records(data)
    except CorruptedError:
        return


@given(st.binary(min_size=1, max_size=8), st.integers(0, 120))
@example(b"\x0c", 83)  # the body's size, so that nothing is left for the topic's
def test_one_that_is_damaged_leaves_the_others_readable(damage: bytes, at: int) -> None:
    """Its size is what the others are found by."""
    first, last = encode_record(PARSED), encode_record(replace(PARSED, queue_offset=4))
    at = 4 + at % (len(first) - 4 - len(damage))
    damaged = first[:at] + damage + first[at + len(damage) :]
    found = decode_records(damaged + last)
    assert len(found) == 2 and found[1].queue_offset == 4 and not found[1].fault


def test_a_body_that_fails_its_checksum_is_a_fault() -> None:
    data = encode_record(PARSED)
    [found] = decode_records(data.replace(b"body", b"bodx"))
    assert "checksum" in found.fault
    with pytest.raises(CorruptedError):
        stored_message(found, Names(), 0)


@given(st.lists(st.tuples(st.binary(max_size=50), PROPERTIES), max_size=5))
def test_batches_come_back(messages: list[tuple[bytes, dict[str, str]]]) -> None:
    texts = [(body, property_text.encode(properties)) for body, properties in messages]
    assert decode_batch(encode_batch(texts)) == messages


def test_a_record_that_holds_a_batch_is_its_messages() -> None:
    inner = encode_batch([(b"a", property_text.encode({"x": "1"})), (b"b", "")])
    record = replace(
        PARSED, body=inner, sys_flag=INNER_BATCH, properties={"INNER_BASE": "7", "INNER_NUM": "2", "k": "v"}
    )
    found = decode_records(encode_record(record))
    assert [(m.body, m.queue_offset, m.properties) for m in found] == [
        (b"a", 7, {"k": "v", "x": "1"}),
        (b"b", 8, {"k": "v"}),
    ]


LONG = b"long" * 999
PACKED: dict[int, bytes] = {
    0: zlib.compress(LONG),
    1: lz4.frame.compress(LONG, block_size=lz4.frame.BLOCKSIZE_MAX4MB, block_linked=False, store_size=False),
    2: zstandard.ZstdCompressor(5, write_content_size=False).compress(LONG),
    3: zlib.compress(LONG),
}
"""By the types of sysFlag; LZ4 and zstd as RocketMQ's Java client writes them."""


@pytest.mark.parametrize("kind", PACKED)
def test_compressed_bodies(kind: int) -> None:
    def read(body: bytes, limit: int = len(LONG)) -> bytes:
        return inflated(replace(PARSED, body=body, sys_flag=COMPRESSED | kind << 8), limit)

    packed = PACKED[kind]
    assert read(packed) == LONG
    for body, limit in ((packed, len(LONG) - 1), (packed[:-3], 9999), (packed[:5], 9999), (b"x", 9999), (b"", 9999)):
        with pytest.raises(CorruptedError):
            read(body, limit)


def test_a_small_body_does_not_grow_without_bound() -> None:
    nothing = bytes(1 << 26)
    bombs = {0: zlib.compress(nothing), 1: lz4.frame.compress(nothing), 2: zstandard.compress(nothing)}
    for kind, bomb in bombs.items():
        tracemalloc.start()
        try:
            with pytest.raises(CorruptedError, match="more than 1048576 bytes"):
                inflated(replace(PARSED, body=bomb, sys_flag=COMPRESSED | kind << 8), 1 << 20)
            assert tracemalloc.get_traced_memory()[1] < 32 << 20
        finally:
            tracemalloc.stop()


def test_an_unknown_compression_is_told() -> None:
    with pytest.raises(CorruptedError, match="not known"):
        inflated(replace(PARSED, body=b"x", sys_flag=COMPRESSED | 7 << 8))


@given(st.binary(max_size=200), st.sampled_from([*PACKED]), st.integers(0, 4000))
def test_what_is_inflated_is_a_body_or_is_told(noise: bytes, kind: int, at: int) -> None:
    packed = PACKED[kind]
    for body in (noise, packed[: at % len(packed)] + noise):
        with contextlib.suppress(CorruptedError):
            assert len(inflated(replace(PARSED, body=body, sys_flag=COMPRESSED | kind << 8), 9999)) <= 9999


@given(PROPERTIES)
def test_properties_come_back(properties: dict[str, str]) -> None:
    assert property_text.decode(property_text.encode(properties)) == properties


@given(st.text(max_size=6))
def test_a_text_that_the_map_carries(text: str) -> None:
    is_odd = any(ord(c) < 32 or 127 <= ord(c) < 160 or 0xD800 <= ord(c) < 0xE000 for c in text)
    assert is_plain(text) == (bool(text.strip()) and not is_odd)


def test_which_characters_the_map_carries() -> None:
    odd = [*range(32), *range(127, 160), *range(0xD800, 0xE000)]
    assert [code for code in range(0x11000) if not is_plain(f"a{chr(code)}a")] == odd


@given(st.dictionaries(ANY, ANY, max_size=5))
def test_what_the_text_cannot_say_is_left_out_and_harms_no_other(properties: dict[str, str]) -> None:
    found = property_text.decode(property_text.encode(properties))
    assert found.items() <= properties.items()


# -- messages --------------------------------------------------------------------------------------------------------

VALUES = st.one_of(ANY, st.binary(max_size=20))
MESSAGES = st.builds(
    Message,
    topic=st.just("t"),
    body=st.binary(max_size=50),
    sub_topic=ANY.map(lambda text: f"t/{text}"),
    qos=st.integers(0, 2),
    tag=ANY,
    keys=st.lists(ANY, max_size=3).map(tuple),
    message_group=ANY,
    message_id=st.binary(min_size=1, max_size=20),
    born_time_ms=st.integers(0, 1 << 50),
    properties=st.lists(st.tuples(ANY, VALUES), max_size=4).map(tuple),
    system=st.dictionaries(
        st.sampled_from([SystemProperty.CONTENT_TYPE, SystemProperty.REPLY_TO, SystemProperty.PROTOCOL]),
        ANY,
        max_size=3,
    ),
)


def told_of(message: Message) -> dict[str, str]:
    return property_text.decode(properties_for(message))


def test_what_recurs_is_told_of_each_message_as_its_own() -> None:
    """Messages differ in one thing after the other, and back again."""
    plain = Message("t", b"a", sub_topic="t/1", message_id=bytes(16), born_time_ms=5, tag="x", properties=(("a", "1"),))
    others = [
        *(replace(plain, message_id=b"\1" * 16), replace(plain, message_id=b"odd"), replace(plain, born_time_ms=6)),
        *(replace(plain, body=b""), replace(plain, sub_topic="t/2"), replace(plain, qos=1), replace(plain, tag="")),
        *(replace(plain, keys=("k",)), replace(plain, message_group="g"), replace(plain, properties=(("a", "2"),))),
        *(replace(plain, system={"content_type": "a"}), replace(plain, system={"content_type": b"a"})),
        replace(plain, properties=(("a", b"1"),)),
    ]
    for message in (plain, *others, plain, *reversed(others)):
        record = Record("t", 0, 5, 6, body_for(message), told_of(message))
        found = stored_message(record, Names(), 0, topic="t")
        for name in set(Message.__slots__) - {"filter_hash", "queue_id"}:
            assert getattr(found, name) == getattr(message, name), name
    assert len({properties_for(message) for message in others}) == len(others)


@given(MESSAGES)
def test_a_message_comes_back_unchanged(message: Message) -> None:
    record = Record("t", 0, 5, 6, body_for(message), told_of(message), born_time_ms=message.born_time_ms)
    record.properties |= {"CLUSTER": "c", "MSG_REGION": "r", "TRACE_ON": "true"}
    [decoded] = decode_records(encode_record(record))
    found = stored_message(decoded, Names(), 0)
    for name in Message.__slots__:
        if name not in ("filter_hash", "queue_id"):
            assert getattr(found, name) == getattr(message, name), name


def test_a_message_of_rocketmqs_own_client() -> None:
    told = {
        "UNIQ_KEY": "7F0000010001",
        "TAGS": "red",
        "KEYS": "k1 k2",
        SHARDING_KEY: "line",
        "mine": "1",
        "WAIT": "true",
    }
    record = replace(PARSED, properties=told, flag=7)
    found = stored_message(record, Names(), 10_001)
    assert (found.tag, found.keys, found.message_group) == ("red", ("k1", "k2"), "line")
    assert (found.message_id, found.properties) == (b"7F0000010001", (("mine", "1"),))
    assert found.system_text(SystemProperty.BORN_HOST) == "1.2.3.4"
    assert (found.queue_id, found.queue_offset, found.commit_log_offset) == (10_001, 2, 3)


def test_properties_beyond_the_limit_are_refused() -> None:
    message = Message("t", b"", message_id=b"1", properties=(("a", "x" * 40_000),))
    with pytest.raises(EntrepotError) as refused:
        properties_for(message)
    assert refused.value.code is Code.MESSAGE_PROPERTIES_TOO_LARGE


# -- receipts --------------------------------------------------------------------------------------------------------


def popped(**fields: str) -> Frame:
    told = {"popTime": "100", "invisibleTime": "5000", "reviveQid": "3", "startOffsetInfo": "0 0 4;0 1 7", **fields}
    return Frame(0, 1, told, is_answer=True)


def test_receipts_are_made_of_the_answers_header() -> None:
    """As RocketMQ 5.5.0 gave them, with the one that came again."""
    normal = replace(PARSED, queue_id=1, queue_offset=9, commit_log_offset=77)
    again = replace(PARSED, reconsume_times=1, properties={RECEIPT: "0 90 5000 7 1 broker-a 1 2"})
    (one, first), (other, second) = receipts_of(popped(), [normal, again], "broker-a")
    assert (one.text, first) == ("7 100 5000 3 0 broker-a 1 9 77", 1)
    assert (other.text, second) == ("0 90 5000 7 1 broker-a 1 2 3", 2)
    assert one.topic("t", "g") == "t"
    assert other.topic("t", "g") == "%RETRY%g_t"
    assert replace(other, retry="2").topic("t", "g") == "%RETRY%g+t"
    assert PopReceipt.parse(one.text) == one


def test_ordered_deliveries_are_counted_by_the_header() -> None:
    told = popped(orderCountInfo="0 qo0%1 1;0 0 0", reviveQid="999")
    records = [replace(PARSED, queue_id=0, queue_offset=offset) for offset in (1, 2)]
    assert [attempt for _, attempt in receipts_of(told, records, "b")] == [2, 1]


def test_a_renewed_receipt() -> None:
    receipt = PopReceipt(7, 100, 5000, 3, "0", "b", 1, 9, 77)
    told = {"popTime": "200", "invisibleTime": "1500", "reviveQid": "5"}
    assert receipt.renewed(told).text == "9 200 1500 5 0 b 1 9 77"
    ordered = replace(receipt, revive_queue=999).renewed({**told, "reviveQid": "999"})
    assert ordered.text == "7 200 1500 999 0 b 1 9 77"


@cases("text", ["", "1 2 3", "a b c d e f g h", "1 2 3 4 0 b x 8"])
def test_what_is_no_receipt(text: str) -> None:
    with pytest.raises(EntrepotError) as refused:
        PopReceipt.parse(text)
    assert refused.value.code is Code.INVALID_RECEIPT_HANDLE


def test_a_batch_names_offsets_by_bits() -> None:
    receipts = [PopReceipt(4, 100, 5000, 3, "0", "b", 0, offset) for offset in (4, 5, 14)]
    other = PopReceipt(0, 100, 5000, 3, "1", "b", 0, 0)
    batch, retried = batch_of("t", "g", [*receipts, other])
    assert b64decode(str(batch["b"])) == (0b100_0000_0011).to_bytes(2, "little")
    assert {name: batch[name] for name in "ctr"} == {"c": "g", "t": "t", "r": "0"}
    assert (batch["so"], batch["pt"], retried["r"]) == (4, 100, "1")


# -- names, ids, signatures, JSON ------------------------------------------------------------------------------------


@cases(
    "home, name, resource",
    [
        ("", "share~0a", "share||0a"),
        ("ns", "%DLQ%share~0a", "%DLQ%ns%share||0a"),
        ("", "team/%RETRY%share~0a", "%RETRY%team%share||0a"),
        ("", "a|b", "a|b"),
        ("", "orders", "orders"),
        ("", "team/orders", "team%orders"),
        ("", "team/%DLQ%workers", "%DLQ%team%workers"),
        ("", "%DLQ%workers", "%DLQ%workers"),
        ("", "%AMQP%q", "%AMQP%q"),
        ("INST", "orders", "INST%orders"),
        ("INST", "%RETRY%g", "%RETRY%INST%g"),
        ("INST", "team/orders", "team%orders"),
    ],
)
def test_names(home: str, name: str, resource: str) -> None:
    assert Names(home).resource(name) == resource
    assert Names(home).name(resource) == name


def test_a_name_that_reads_as_anothers_is_refused() -> None:
    for name in ("team%orders", "a||b", "team/a||b"):
        with pytest.raises(EntrepotError) as refused:
            Names().resource(name)
        assert refused.value.code is Code.ILLEGAL_TOPIC


def test_offset_ids() -> None:
    place = place_of("7F00000100002A9F00000000089F81E8")
    assert place == RecordPlace("127.0.0.1", 10911, 0x089F81E8)
    assert offset_id(RecordPlace("::1", 9, 5)) == "00000000000000000000000000000001000000090000000000000005"
    for text in ("", "xyz", "7F", "7F0000010000000000000000089F81E8"):
        assert place_of(text) is None


def test_signatures_are_over_values_in_the_order_of_names_and_the_body() -> None:
    """HMAC-SHA1 of `AK` + `1` + `2` + `body` with the key `secret`, made by openssl."""
    found = signed({"b": "2", "a": "1"}, b"body", "AK", "secret")
    assert found["Signature"] == "IDlxAqLz6OiH4UwJN/5MZ0pLPP4="
    assert found["AccessKey"] == "AK" and "SecurityToken" not in found
    assert signed({}, b"", "AK", "s", "token")["SecurityToken"] == "token"


@cases(
    "text, value",
    [
        ('{"a": [1, -2.5, "x:,}"], "b": {}, "c": null}', {"a": [1, -2.5, "x:,}"], "b": {}, "c": None}),
        (
            '{"brokerAddrs":{0:"127.0.0.1:1",1:"127.0.0.1:2"}}',
            {"brokerAddrs": {"0": "127.0.0.1:1", "1": "127.0.0.1:2"}},
        ),
        (
            '{{"queueId":0}:{"maxOffset":2},{"queueId":1}:{}}',
            [({"queueId": 0}, {"maxOffset": 2}), ({"queueId": 1}, {})],
        ),
        (' {0 : true , 1:"a\\"b"} ', {"0": True, "1": 'a"b'}),
    ],
)
def test_the_json_of_java(text: str, value: Any) -> None:
    assert dialect.read(text.encode()) == value


@cases("text", ["", "{", "{0:}", "{0 1}", "[1 2]", "{0:1}x", '{0:"a}', "[" * 99 + "0" + "]" * 99 + "{0:1}", "\xff"])
def test_what_is_no_json_of_java(text: str) -> None:
    with pytest.raises(EntrepotError):
        dialect.read(text.encode("latin-1"))


@given(st.text(st.sampled_from('{}[]:,"01a\\ '), max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        dialect.read(text.encode())
    except EntrepotError:
        return


def test_what_is_under_names() -> None:
    assert dialect.table(b'{"a":{"b":{"c":1}}}', "a", "b") == {"c": 1}
    assert dialect.table(b'{"a":[]}', "a", "b") == dialect.table(b"", "a") == {}


def test_a_message_has_the_id_of_gateways() -> None:
    assert told_of(Message("t", b"a", message_id=bytes(16)))[UNIQUE_KEY] == "01" + "00" * 16
