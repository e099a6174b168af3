"""Errors of MQTT that end a connection, and the reason codes of the domain's refusals."""

from __future__ import annotations

from typing import Final

from entrepot.domain.errors import Code
from entrepot.protocols.mqtt.reason_codes import ReasonCode


class MqttError(Exception):
    """A reason to refuse the connection or to end it (MQTT 5.0 section 4.13); MQTT 3 can only close."""

    def __init__(self, reason: ReasonCode, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text

    def __repr__(self) -> str:
        return f"MqttError({self.reason.name}, {self.text!r})"


def malformed(text: str) -> MqttError:
    """Return the error of bytes that the specification cannot parse (1.2, Malformed Packet)."""
    return MqttError(ReasonCode.MALFORMED_PACKET, text)


def protocol_error(text: str) -> MqttError:
    """Return the error of a packet that the protocol does not allow (1.2, Protocol Error)."""
    return MqttError(ReasonCode.PROTOCOL_ERROR, text)


REASON_OF_CODE: Final[dict[Code, ReasonCode]] = {
    Code.BAD_REQUEST: ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    Code.ILLEGAL_TOPIC: ReasonCode.TOPIC_NAME_INVALID,
    Code.ILLEGAL_CONSUMER_GROUP: ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    Code.INVALID_TRANSACTION_ID: ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    Code.ILLEGAL_FILTER_EXPRESSION: ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    Code.ILLEGAL_INVISIBLE_TIME: ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    Code.ILLEGAL_DELIVERY_TIME: ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    Code.INVALID_RECEIPT_HANDLE: ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    Code.ILLEGAL_OFFSET: ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    Code.UNAUTHORIZED: ReasonCode.NOT_AUTHORIZED,
    Code.FORBIDDEN: ReasonCode.NOT_AUTHORIZED,
    Code.TOPIC_NOT_FOUND: ReasonCode.TOPIC_NAME_INVALID,
    Code.CONSUMER_GROUP_NOT_FOUND: ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    Code.OFFSET_NOT_FOUND: ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    Code.REQUEST_TIMEOUT: ReasonCode.UNSPECIFIED_ERROR,
    Code.MESSAGE_BODY_TOO_LARGE: ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    Code.PRECONDITION_FAILED: ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    Code.TOO_MANY_REQUESTS: ReasonCode.QUOTA_EXCEEDED,
    Code.MESSAGE_PROPERTIES_TOO_LARGE: ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    Code.INTERNAL_ERROR: ReasonCode.UNSPECIFIED_ERROR,
    Code.UNAVAILABLE: ReasonCode.UNSPECIFIED_ERROR,
    Code.OUTCOME_UNKNOWN: ReasonCode.UNSPECIFIED_ERROR,
    Code.UNSUPPORTED: ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,
    Code.STORAGE_FULL: ReasonCode.QUOTA_EXCEEDED,
    Code.MESSAGE_CORRUPTED: ReasonCode.UNSPECIFIED_ERROR,
    Code.COLD_CORRUPTED: ReasonCode.UNSPECIFIED_ERROR,
}
"""The reason code of PUBACK for each refusal, among those that a PUBACK may carry (3.4.2.1)."""
