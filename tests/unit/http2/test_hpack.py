"""HPACK: the examples of RFC 7541, appendix C; what the tables keep; and blocks that would cost more than they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.protocols.http2 import huffman
from entrepot.protocols.http2.hpack import (
    ENTRY_BYTES,
    MAX_FIELDS,
    STATIC,
    TABLE_BYTES,
    HeaderListTooLargeError,
    HpackDecoder,
    HpackError,
    TooManyFieldsError,
    literal,
)
from tests.support.cases import cases

GET = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"www.example.com")]
SECURE = [(b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/index.html"), (b":authority", b"www.example.com")]
CUSTOM = (b"custom-key", b"custom-value")
NO_CACHE = (b"cache-control", b"no-cache")
LIST_BYTES = 16_384


def huffman_encoded(text: bytes) -> bytes:
    bits = "".join(f"{code:0{length}b}" for code, length in (huffman.CODES[byte] for byte in text))
    bits += "1" * (-len(bits) % 8)
    return int(bits or "0", 2).to_bytes(len(bits) // 8, "big")


def decoder() -> HpackDecoder:
    return HpackDecoder(LIST_BYTES)


PLAIN = (
    "828684410f7777772e6578616d706c652e636f6d",
    "828684be58086e6f2d6361636865",
    "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
)
CODED = (
    "828684418cf1e3c2e5f23a6ba0ab90f4ff",
    "828684be5886a8eb10649cbf",
    "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
)


@cases("blocks", [PLAIN, CODED])
def test_requests_of_the_appendix(blocks: tuple[str, ...]):
    tables = decoder()
    found = [tables.decode(bytes.fromhex(each)) for each in blocks]
    assert found == [GET, [*GET, NO_CACHE], [*SECURE, CUSTOM]]
    assert tables.size == 164


def test_responses_of_the_appendix_make_old_entries_go():
    """C.6, with a table of 256 bytes."""
    tables = decoder()
    size = bytes.fromhex("3fe101")
    first = size + bytes.fromhex(
        "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3"
    )
    date, location = (b"date", b"Mon, 21 Oct 2013 20:13:21 GMT"), (b"location", b"https://www.example.com")
    rest = [(b"cache-control", b"private"), date, location]
    assert tables.decode(first) == [(b":status", b"302"), *rest]
    assert tables.size == 222
    assert tables.decode(bytes.fromhex("4883640effc1c0bf")) == [(b":status", b"307"), *rest]
    assert tables.size == 222
    third = tables.decode(
        bytes.fromhex(
            "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960"
            "d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007"
        )
    )
    assert third[0] == (b":status", b"200")
    assert third[4] == (b"content-encoding", b"gzip")
    assert tables.size == 215


@given(st.binary(max_size=200))
def test_huffman_codes_come_back(text: bytes):
    assert huffman.decode(huffman_encoded(text)) == text


@cases(
    "data",
    [b"\xff\xff\xff\xff", huffman_encoded(b"a") + b"\xff", b"\x18"],
)
def test_strings_that_are_none(data: bytes):
    """With the end of the string in it, a whole byte of padding, and padding of zeros."""
    with pytest.raises(huffman.HuffmanError):
        huffman.decode(data)


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=60), st.binary(max_size=300)), max_size=20))
def test_literals_of_any_length_come_back(fields: list[tuple[bytes, bytes]]):
    assert decoder().decode(b"".join(literal(*each) for each in fields)) == fields


@cases(
    "block, why",
    [
        ("80", "there is no entry 0"),
        ("be", "there is no such entry"),
        ("ff80808001", "there is no such entry"),
        ("ff8080808001", "a number is too long"),
        ("40", "the block is cut short"),
        ("0003616263", "the block is cut short"),
        ("0005616263", "the block is cut short"),
        ("7f", "the block is cut short"),
        ("3fe21f", "the table would be too large"),
        ("8220", "the table changes its size behind the begin of a block"),
        ("400161" + "84ffffffff", "the end of the string is in it"),
    ],
)
def test_blocks_that_are_none(block: str, why: str):
    with pytest.raises(HpackError, match=why):
        decoder().decode(bytes.fromhex(block))


def indexed(index: int) -> bytes:
    assert len(STATIC) < index < 127
    return bytes((0x80 | index,))


def entry(name: bytes, value: bytes) -> bytes:
    """A literal that enters the table."""
    return b"\x40" + literal(name, value)[1:]


def test_the_table_has_a_limit():
    tables = decoder()
    for number in range(1000):
        tables.decode(entry(b"%d" % number, b"x" * 100))
        assert tables.size <= TABLE_BYTES
    assert tables.decode(indexed(62)) == [(b"999", b"x" * 100)]
    tables.decode(entry(b"n", b"x" * TABLE_BYTES))  # larger than the table: it empties it
    assert tables.size == 0


def test_a_bomb_costs_no_more_than_the_list_may_have():
    """A small block that says a large field again and again; the tables stay in step with the peer's."""
    tables = decoder()
    tables.decode(entry(b"bomb", b"x" * 4000))
    with pytest.raises(HeaderListTooLargeError):
        tables.decode(indexed(62) * (MAX_FIELDS - 1) + entry(b"after", b"it"))
    assert tables.decode(indexed(62)) == [(b"after", b"it")]
    with pytest.raises(TooManyFieldsError):
        tables.decode(indexed(62) * (MAX_FIELDS + 1))


@cases("more, is_taken", [(0, True), (1, False)])
def test_the_size_of_a_list_counts_as_the_protocol_says(more: int, is_taken: bool):
    block = literal(b"n", b"x" * (LIST_BYTES - ENTRY_BYTES - 1 + more))
    if is_taken:
        assert len(decoder().decode(block)) == 1
    else:
        with pytest.raises(HeaderListTooLargeError):
            decoder().decode(block)


def test_a_peer_may_make_the_table_smaller_and_larger_again():
    tables = decoder()
    tables.decode(entry(b"a", b"1") + entry(b"b", b"2"))
    tables.decode(b"\x20\x3f\xe1\x1f" + entry(b"c", b"3"))
    assert tables.size == ENTRY_BYTES + 2
    with pytest.raises(HpackError):
        tables.decode(indexed(63))
