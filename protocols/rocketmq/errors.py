"""Refusals in RocketMQ's codes, and RocketMQ's in ours: one table for both ways.  An answer's `status.code` has the
code; the gRPC status is OK unless the transport itself failed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.protocols.rocketmq import v2_pb2 as v2

_TABLE: Final[tuple[tuple[Code, v2.Code.ValueType, tuple[v2.Code.ValueType, ...]], ...]] = (
    # our refusal, its code on the wire, and all codes on the wire that mean it
    (
        Code.BAD_REQUEST,
        v2.BAD_REQUEST,
        (
            v2.BAD_REQUEST,
            v2.ILLEGAL_ACCESS_POINT,
            v2.ILLEGAL_MESSAGE_TAG,
            v2.ILLEGAL_MESSAGE_KEY,
            v2.ILLEGAL_MESSAGE_GROUP,
            v2.ILLEGAL_MESSAGE_PROPERTY_KEY,
            v2.ILLEGAL_MESSAGE_ID,
            v2.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
            v2.UNRECOGNIZED_CLIENT_TYPE,
            v2.CLIENT_ID_REQUIRED,
            v2.ILLEGAL_POLLING_TIME,
            v2.ILLEGAL_LITE_TOPIC,
            v2.MESSAGE_BODY_EMPTY,
        ),
    ),
    (Code.ILLEGAL_TOPIC, v2.ILLEGAL_TOPIC, (v2.ILLEGAL_TOPIC,)),
    (Code.ILLEGAL_CONSUMER_GROUP, v2.ILLEGAL_CONSUMER_GROUP, (v2.ILLEGAL_CONSUMER_GROUP,)),
    (Code.INVALID_TRANSACTION_ID, v2.INVALID_TRANSACTION_ID, (v2.INVALID_TRANSACTION_ID,)),
    (Code.ILLEGAL_FILTER_EXPRESSION, v2.ILLEGAL_FILTER_EXPRESSION, (v2.ILLEGAL_FILTER_EXPRESSION,)),
    (Code.ILLEGAL_INVISIBLE_TIME, v2.ILLEGAL_INVISIBLE_TIME, (v2.ILLEGAL_INVISIBLE_TIME,)),
    (Code.ILLEGAL_DELIVERY_TIME, v2.ILLEGAL_DELIVERY_TIME, (v2.ILLEGAL_DELIVERY_TIME,)),
    (Code.INVALID_RECEIPT_HANDLE, v2.INVALID_RECEIPT_HANDLE, (v2.INVALID_RECEIPT_HANDLE,)),
    (Code.ILLEGAL_OFFSET, v2.ILLEGAL_OFFSET, (v2.ILLEGAL_OFFSET,)),
    (Code.UNAUTHORIZED, v2.UNAUTHORIZED, (v2.UNAUTHORIZED,)),
    (Code.FORBIDDEN, v2.FORBIDDEN, (v2.FORBIDDEN, v2.PAYMENT_REQUIRED)),
    (Code.TOPIC_NOT_FOUND, v2.TOPIC_NOT_FOUND, (v2.TOPIC_NOT_FOUND,)),
    (Code.CONSUMER_GROUP_NOT_FOUND, v2.CONSUMER_GROUP_NOT_FOUND, (v2.CONSUMER_GROUP_NOT_FOUND,)),
    (Code.OFFSET_NOT_FOUND, v2.OFFSET_NOT_FOUND, (v2.OFFSET_NOT_FOUND, v2.NOT_FOUND, v2.MESSAGE_NOT_FOUND)),
    (Code.REQUEST_TIMEOUT, v2.REQUEST_TIMEOUT, (v2.REQUEST_TIMEOUT,)),
    (
        # the outcome is not known
        Code.OUTCOME_UNKNOWN,
        v2.PROXY_TIMEOUT,
        (v2.PROXY_TIMEOUT, v2.MASTER_PERSISTENCE_TIMEOUT, v2.SLAVE_PERSISTENCE_TIMEOUT),
    ),
    (Code.MESSAGE_BODY_TOO_LARGE, v2.MESSAGE_BODY_TOO_LARGE, (v2.MESSAGE_BODY_TOO_LARGE, v2.PAYLOAD_TOO_LARGE)),
    (Code.PRECONDITION_FAILED, v2.PRECONDITION_FAILED, (v2.PRECONDITION_FAILED,)),
    (
        Code.TOO_MANY_REQUESTS,
        v2.TOO_MANY_REQUESTS,
        (v2.TOO_MANY_REQUESTS, v2.LITE_TOPIC_QUOTA_EXCEEDED, v2.LITE_SUBSCRIPTION_QUOTA_EXCEEDED),
    ),
    (
        Code.MESSAGE_PROPERTIES_TOO_LARGE,
        v2.MESSAGE_PROPERTIES_TOO_LARGE,
        (v2.MESSAGE_PROPERTIES_TOO_LARGE, v2.REQUEST_HEADER_FIELDS_TOO_LARGE),
    ),
    (
        # an unspecified code, or one of a newer protocol, is not a success either
        Code.INTERNAL_ERROR,
        v2.INTERNAL_ERROR,
        (v2.INTERNAL_ERROR, v2.INTERNAL_SERVER_ERROR, v2.FAILED_TO_CONSUME_MESSAGE, v2.CODE_UNSPECIFIED),
    ),
    (Code.UNAVAILABLE, v2.HA_NOT_AVAILABLE, (v2.HA_NOT_AVAILABLE,)),
    (
        Code.UNSUPPORTED,
        v2.UNSUPPORTED,
        (v2.UNSUPPORTED, v2.NOT_IMPLEMENTED, v2.VERSION_UNSUPPORTED, v2.VERIFY_FIFO_MESSAGE_UNSUPPORTED),
    ),
    (Code.STORAGE_FULL, v2.TOO_MANY_REQUESTS, ()),  # clients wait before they retry this code, and not for others
    (Code.MESSAGE_CORRUPTED, v2.MESSAGE_CORRUPTED, (v2.MESSAGE_CORRUPTED,)),
    (Code.COLD_CORRUPTED, v2.INTERNAL_ERROR, ()),
)

OK_STATUS: Final = v2.Status(code=v2.OK, message="OK")
"""Copied wherever it is used; never changed."""

SUCCESSES: Final = frozenset({v2.OK, v2.MULTIPLE_RESULTS})
"""Codes that do not refuse the call: with MULTIPLE_RESULTS each entry has its own."""

WIRE_CODE: Final[Mapping[Code, v2.Code.ValueType]] = MappingProxyType({ours: wire for ours, wire, _ in _TABLE})
"""Codes of our refusals on the wire."""

DOMAIN_CODE: Final[Mapping[v2.Code.ValueType, Code]] = MappingProxyType(
    {wire: ours for ours, _, meant in _TABLE for wire in meant}
)
"""Meaning of each code on the wire; the two successes have none."""


class WireError(EntrepotError):
    """A refusal with a finer code on the wire than ours."""

    def __init__(self, wire_code: v2.Code.ValueType, message: str) -> None:
        super().__init__(DOMAIN_CODE.get(wire_code, Code.BAD_REQUEST), message)
        self.wire_code = wire_code


def status_of(error: EntrepotError | None) -> v2.Status:
    """Return the status of a refusal, or OK."""
    if error is None:
        return v2.Status(code=v2.OK, message="OK")
    code = error.wire_code if isinstance(error, WireError) else WIRE_CODE[error.code]
    return v2.Status(code=code, message=error.message)


def refusal_of(status: v2.Status) -> EntrepotError | None:
    """Return the refusal of a status, or None for a success.  An unknown code gives INTERNAL_ERROR."""
    if status.code in SUCCESSES:
        return None
    name = v2.Code.Name(status.code) if status.code in v2.Code.values() else str(status.code)
    text = f"RocketMQ says {name}" + (f": {status.message}" if status.message else "")
    return EntrepotError(DOMAIN_CODE.get(status.code, Code.INTERNAL_ERROR), text)
