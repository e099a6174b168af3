"""The Protobuf event format, as it is taken."""

from __future__ import annotations

import pytest
from google.protobuf.any_pb2 import Any
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from entrepot.protocols.cloudevents import cloudevents_pb2 as pb
from entrepot.protocols.cloudevents import http as binding
from entrepot.protocols.cloudevents.errors import BatchTooLargeError, CloudEventError
from entrepot.protocols.cloudevents.event import ExtensionType
from entrepot.protocols.cloudevents.protobuf_format import decode_batch, decode_event
from tests.support.cases import cases

Value = pb.CloudEvent.CloudEventAttributeValue


def message(**more: object) -> pb.CloudEvent:
    return pb.CloudEvent(id="1", source="/s", spec_version="1.0", type="t", **more)  # type: ignore[arg-type]


def test_attributes_of_every_type() -> None:
    made = message(
        attributes={
            "flag": Value(ce_boolean=True),
            "count": Value(ce_integer=-5),
            "text": Value(ce_string="a"),
            "raw": Value(ce_bytes=b"\x00\xff"),
            "link": Value(ce_uri="https://a.example/"),
            "dataschema": Value(ce_uri="urn:a"),
            "near": Value(ce_uri_ref="../a"),
            "time": Value(ce_timestamp=Timestamp(seconds=1_767_225_600, nanos=120_000_000)),
        },
        text_data="hello",
    )
    event = decode_event(made.SerializeToString())
    assert event.attributes == {
        "specversion": "1.0", "id": "1", "source": "/s", "type": "t", "flag": "true", "count": "-5", "text": "a",
        "raw": "AP8=", "link": "https://a.example/", "dataschema": "urn:a", "near": "../a",
        "time": "2026-01-01T00:00:00.12Z",
    }  # fmt: skip
    assert event.typed_extensions == {"flag": ExtensionType.BOOLEAN, "count": ExtensionType.INTEGER}
    assert event.data == b"hello" and not event.implied_json


def test_data_of_every_kind() -> None:
    assert decode_event(message(binary_data=b"\x00").SerializeToString()).data == b"\x00"
    inner = Any(type_url="type.example/reading.v1", value=b"\x08\x01")
    event = decode_event(message(proto_data=inner).SerializeToString())
    assert event.data == b"\x08\x01" and event.datacontenttype == "application/protobuf"
    assert event.attributes["dataschema"] == "https://type.example/reading.v1"
    assert decode_event(message().SerializeToString()).data is None


@cases(
    "made",
    [
        pb.CloudEvent(id="1", source="/s", type="t"),
        pb.CloudEvent(source="/s", spec_version="1.0", type="t"),
        message(attributes={"Name": Value(ce_string="x")}),
        message(attributes={"id": Value(ce_string="x")}),
        message(attributes={"a": Value()}),
        message(attributes={"time": Value(ce_string="yesterday")}),
        message(attributes={"time": Value(ce_timestamp=Timestamp(seconds=2**50))}),
        message(attributes={"time": Value(ce_timestamp=Timestamp(seconds=1, nanos=-1))}),
    ],
    ids=str,
)
def test_what_is_no_event_is_refused(made: pb.CloudEvent) -> None:
    with pytest.raises(CloudEventError):
        decode_event(made.SerializeToString())


def test_batches_and_their_limit() -> None:
    body = pb.CloudEventBatch(events=[message(), message()]).SerializeToString()
    assert len(binding.from_batch(body, b"application/cloudevents-batch+protobuf")) == 2
    with pytest.raises(BatchTooLargeError):
        decode_batch(body, 1)
    with pytest.raises(CloudEventError, match="event 1 of the batch"):
        decode_batch(pb.CloudEventBatch(events=[message(), pb.CloudEvent()]).SerializeToString())
    assert binding.from_structured(message().SerializeToString(), "application/cloudevents+protobuf").id == "1"


@given(st.binary(max_size=300))
def test_no_bytes_make_it_fail(body: bytes) -> None:
    for decode in (decode_event, decode_batch):
        try:
            decode(body)
        except CloudEventError:
            continue
