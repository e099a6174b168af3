"""Values: what every operation is asked with and answers comes back as it was; other bytes are refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.domain.errors import Code, CorruptedError, EntrepotError, StorageFullError
from entrepot.protocols.wire.all_operations import OPERATIONS
from entrepot.protocols.wire.frames import RemotingError
from entrepot.protocols.wire.values import Codec, encode, error_of
from tests.support.cases import cases
from tests.wire.remoting.values import plain, values_of

ALL = list(OPERATIONS.values())
CODECS = {
    f"{operation.name} {what}": codec
    for operation in ALL
    for what, codec in (("arguments", operation.arguments), ("result", operation.result))
    if codec is not None
}
ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8)
    | st.sampled_from([int(code) for code in Code]),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.scaled
@cases("codec", CODECS.values(), ids=list(CODECS))
def test_values_come_back(codec: Codec[Any]):
    @given(values_of(codec.kind))
    @settings(max_examples=settings().max_examples // 12)  # of each of eighty
    def comes_back(value: Any) -> None:
        assert plain(codec.decode(encode(value))) == plain(value)

    comes_back()


@given(ANY, st.sampled_from(list(CODECS.values())))
def test_other_values_are_refused_in_one_way(value: Any, codec: Codec[Any]):
    refused_or_read(codec, msgspec.msgpack.encode(value))


@given(ANY)
def test_other_values_in_place_of_our_own_words_are_refused(value: Any):
    refused_or_read(CODECS["acknowledge result"], msgspec.msgpack.encode([value]))
    refused_or_read(CODECS["measure result"], msgspec.msgpack.encode([{"a": value}, {}, None]))


@given(st.binary(max_size=60), st.sampled_from(list(CODECS.values())))
def test_random_bytes_are_refused(data: bytes, codec: Codec[Any]):
    refused_or_read(codec, data)


def refused_or_read(codec: Codec[Any], data: bytes) -> None:
    """What is read can be told on."""
    try:
        value = codec.decode(data)
    except (RemotingError, EntrepotError):
        return
    encode(value)


@pytest.mark.parametrize(
    "value", [[{"a": []}, {}, None], [{"a": {}}, {}, None], [{"a": [["x"] * 17, 1]}, {}, None], [{}, {}, [40000, 5]]]
)
def test_halves_of_our_own_words_are_refused(value: Any):
    with pytest.raises(RemotingError):
        CODECS["measure result"].decode(msgspec.msgpack.encode(value))


@cases("codec", CODECS.values(), ids=list(CODECS))
def test_values_nested_without_end_are_refused(codec: Codec[Any]):
    with pytest.raises(RemotingError):
        codec.decode(b"\x91" * 100_000)


def test_refusals_keep_their_class():
    assert isinstance(error_of(Code.STORAGE_FULL, "full"), StorageFullError)
    assert isinstance(error_of(Code.MESSAGE_CORRUPTED, "corrupted"), CorruptedError)
    assert error_of(Code.FORBIDDEN, "no").code == Code.FORBIDDEN


def test_a_code_of_later_versions_is_told_by_its_number():
    error = error_of(49_999, "what is new")
    assert (error.code, error.message) == (Code.INTERNAL_ERROR, "what is new (code 49999)")


def test_a_value_that_may_not_be_is_refused_as_the_domain_does():
    payload = msgspec.msgpack.encode([[{"name": "t", "queues": 0}]])
    with pytest.raises(EntrepotError, match="queues must be"):
        CODECS["put_topics arguments"].decode(payload)


def test_what_is_no_value_is_not_sent():
    with pytest.raises(NotImplementedError):
        encode(object())


def test_every_operation_is_named_as_nothing_else():
    assert len({operation.name for operation in ALL}) == len(ALL)
    assert all(0 < operation.number <= 0xFFFF for operation in ALL)
