"""Errors, names, times, handles and headers of RocketMQ's protocol."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.errors import Code, EntrepotError
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.cluster_handle import ClusterHandle
from entrepot.protocols.rocketmq.errors import DOMAIN_CODE, SUCCESSES, WIRE_CODE, refusal_of, status_of
from entrepot.protocols.rocketmq.headers import Credentials, headers, signature
from entrepot.protocols.rocketmq.names import (
    Namespaces,
    addresses,
    duration,
    endpoints,
    milliseconds,
    timestamp,
)
from tests.support.cases import cases

NO_WIRE_CODE = {Code.STORAGE_FULL, Code.COLD_CORRUPTED}
"""Ours alone: on the wire it is another refusal's word."""


def test_the_table_of_errors_is_complete_both_ways():
    assert set(WIRE_CODE) == set(Code)
    assert set(DOMAIN_CODE) | SUCCESSES == set(v2.Code.values())
    assert not set(DOMAIN_CODE) & SUCCESSES


@cases("code", sorted(set(Code) - NO_WIRE_CODE))
def test_a_refusal_comes_back_as_what_it_was(code: Code):
    found = refusal_of(status_of(EntrepotError(code, "why")))
    assert found is not None and found.code == code and "why" in found.message


@cases("code", sorted(set(Code)))
def test_codes_of_one_name_have_one_number(code: Code):
    same = dict(v2.Code.items()).get(code.name)
    if same is not None and code is not Code.MESSAGE_CORRUPTED:  # theirs is of a request, ours of what is stored
        assert (WIRE_CODE[code], int(code)) == (same, same)


def test_statuses_that_are_no_refusal_and_unknown_ones():
    assert refusal_of(status_of(None)) is None
    assert refusal_of(v2.Status(code=v2.MULTIPLE_RESULTS)) is None
    unknown = refusal_of(v2.Status.FromString(b"\x08\xff\xff\x7f"))
    assert unknown is not None and unknown.code == Code.INTERNAL_ERROR
    silent = refusal_of(v2.Status())
    assert silent is not None and silent.code == Code.INTERNAL_ERROR


def test_names_and_resources():
    at_home = Namespaces("MQ_INST_1")
    for name, namespace, plain in (("t", "MQ_INST_1", "t"), ("team/t", "team", "t"), ("%DLQ%g", "MQ_INST_1", "%DLQ%g")):
        resource = at_home.resource(name)
        assert (resource.resource_namespace, resource.name) == (namespace, plain)
        assert at_home.name(resource) == name
    assert at_home.name(v2.Resource(name="t")) == "t"
    assert Namespaces().resource("t").resource_namespace == ""


@given(st.integers(0, 253_402_300_799_999))
def test_times(value: int):
    assert milliseconds(timestamp(value)) == value
    assert milliseconds(duration(value)) == value


@pytest.mark.parametrize(
    ("host", "scheme"), [("10.0.0.1", v2.IPv4), ("::1", v2.IPv6), ("proxy.example", v2.DOMAIN_NAME)]
)
def test_endpoints(host: str, scheme: int):
    found = endpoints([(host, 8081), (host, 8082)])
    assert found.scheme == scheme
    assert addresses(found) == ((host, 8081), (host, 8082))


parts = st.text(max_size=20).filter(lambda text: text.isprintable())


@given(parts, parts, parts, parts, parts, st.integers(0, 2**32 - 1), st.integers(-(2**31), 2**31 - 1))
def test_a_handle_comes_back(
    topic: str, group: str, broker: str, message_id: str, receipt: str, attempt: int, queue_id: int
):
    handle = ClusterHandle(topic, group, broker, message_id, receipt, attempt, queue_id)
    text = handle.encode()
    assert re.fullmatch(r"[A-Za-z0-9_-]+", text)
    assert ClusterHandle.decode(text) == handle


@given(st.data())
def test_a_damaged_handle_is_none(data: st.DataObject):
    text = ClusterHandle("t", "g", "b", "id", "receipt", 1, 0).encode()
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.sampled_from("AZaz09-_+/=\u00e9").filter(lambda c: c != text[place]))
    damaged = data.draw(st.sampled_from([text[:place], text[:place] + other + text[place + 1 :], text + other]))
    with pytest.raises(EntrepotError) as refused:
        ClusterHandle.decode(damaged)
    assert refused.value.code == Code.INVALID_RECEIPT_HANDLE


def test_headers():
    found = dict(headers("client", Credentials(), "space", "1.2", 1_600_000_000_000, "call"))
    assert found["x-mq-date-time"] == "20200913T122640Z"
    assert (found["x-mq-client-id"], found["x-mq-namespace"], found["x-mq-request-id"]) == ("client", "space", "call")
    assert "authorization" not in found
    signed = dict(headers("client", Credentials("key", "secret", "token"), "", "1.2", 1_600_000_000_000, "call"))
    assert signed["authorization"] == (
        "MQv2-HMAC-SHA1 Credential=key, SignedHeaders=x-mq-date-time, Signature="
        + signature("secret", "20200913T122640Z")
    )
    assert signed["x-mq-session-token"] == "token"
    assert "secret" not in repr(Credentials("key", "secret", "token"))


def test_the_signature_is_hmac_sha1():
    # RFC 2202, test case 2
    assert signature("Jefe", "what do ya want for nothing?") == "EFFCDF6AE5EB2FA2D27416D5F184DF9C259A7C79"
