"""Problem types: the status, type and title of an RFC 9457 problem for every refusal.

`PROBLEMS` is the complete table of the domain's `Code`; `EVENT_PROBLEMS` has the faults of an event itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.operations.row.problem import Problem
from entrepot.protocols.cloudevents.errors import BatchTooLargeError, CloudEventError, UnsupportedFormatError

PROBLEMS: Final[Mapping[Code, Problem]] = MappingProxyType(
    {
        Code.BAD_REQUEST: Problem(400, "bad-request", "The request is not valid"),
        Code.ILLEGAL_TOPIC: Problem(400, "illegal-topic", "The topic name is not valid"),
        Code.ILLEGAL_CONSUMER_GROUP: Problem(400, "illegal-consumer-group", "The consumer group name is not valid"),
        Code.INVALID_TRANSACTION_ID: Problem(400, "invalid-transaction-id", "The transaction is not known"),
        Code.ILLEGAL_FILTER_EXPRESSION: Problem(400, "illegal-filter-expression", "The filter expression is not valid"),
        Code.ILLEGAL_INVISIBLE_TIME: Problem(400, "illegal-invisible-time", "The invisible time is out of range"),
        Code.ILLEGAL_DELIVERY_TIME: Problem(400, "illegal-delivery-time", "The delivery time is out of range"),
        Code.INVALID_RECEIPT_HANDLE: Problem(409, "invalid-receipt-handle", "The receipt handle is not current"),
        Code.ILLEGAL_OFFSET: Problem(400, "illegal-offset", "The offset is out of range"),
        Code.UNAUTHORIZED: Problem(401, "unauthorized", "The request carries no valid credentials"),
        Code.FORBIDDEN: Problem(403, "forbidden", "The operation is not permitted"),
        Code.TOPIC_NOT_FOUND: Problem(404, "topic-not-found", "The topic does not exist"),
        Code.CONSUMER_GROUP_NOT_FOUND: Problem(404, "consumer-group-not-found", "The consumer group does not exist"),
        Code.OFFSET_NOT_FOUND: Problem(404, "offset-not-found", "There is no such offset"),
        Code.REQUEST_TIMEOUT: Problem(504, "request-timeout", "No answer in time: the outcome is unknown"),
        Code.MESSAGE_BODY_TOO_LARGE: Problem(413, "message-body-too-large", "The message body is too large"),
        Code.PRECONDITION_FAILED: Problem(409, "precondition-failed", "The present state does not allow it"),
        Code.TOO_MANY_REQUESTS: Problem(429, "too-many-requests", "Too many requests: try again later"),
        Code.MESSAGE_PROPERTIES_TOO_LARGE: Problem(
            413, "message-properties-too-large", "The message properties are too large"
        ),
        Code.INTERNAL_ERROR: Problem(500, "internal-error", "An internal error occurred"),
        Code.UNAVAILABLE: Problem(503, "unavailable", "The service is not available"),
        Code.OUTCOME_UNKNOWN: Problem(504, "outcome-unknown", "The answer was lost: the outcome is unknown"),
        Code.UNSUPPORTED: Problem(501, "unsupported", "The store cannot do this"),
        Code.STORAGE_FULL: Problem(507, "storage-full", "There is no room for more messages"),
        Code.MESSAGE_CORRUPTED: Problem(500, "message-corrupted", "The stored message fails its checksum"),
        Code.COLD_CORRUPTED: Problem(500, "cold-corrupted", "The object store has lost or corrupted the messages"),
    }
)

EVENT_PROBLEMS: Final[Mapping[type[CloudEventError], Problem]] = MappingProxyType(
    {
        CloudEventError: Problem(400, "invalid-cloudevent", "The event is not a valid CloudEvent"),
        UnsupportedFormatError: Problem(415, "unsupported-event-format", "The event format is not supported"),
        BatchTooLargeError: Problem(413, "batch-too-large", "The batch has too many events"),
    }
)


def problem_of(error: EntrepotError | CloudEventError) -> Problem:
    """Return the problem of a refusal; its `detail` is `error.message`."""
    return EVENT_PROBLEMS[type(error)] if isinstance(error, CloudEventError) else PROBLEMS[error.code]
