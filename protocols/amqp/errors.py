"""Errors of AMQP that close a channel or a connection, and the reply codes of the domain's refusals."""

from __future__ import annotations

from typing import Final

from entrepot.domain.errors import Code
from entrepot.protocols.amqp.reply_codes import CONNECTION_ERRORS, ReplyCode


class AmqpError(Exception):
    """A reason to close a channel or a connection.  `class_id` and `method_id` name the refused method, or are 0.  The
    code decides the scope, unless `is_connections` is given."""

    def __init__(
        self, code: ReplyCode, text: str, class_id: int = 0, method_id: int = 0, is_connections: bool | None = None
    ) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.class_id = class_id
        self.method_id = method_id
        self.is_connections = code in CONNECTION_ERRORS if is_connections is None else is_connections

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.code.name}, {self.text!r}, {self.class_id}, {self.method_id})"


class FrameError(AmqpError):
    """Bytes that cannot be parsed: nothing after them can be read (501)."""

    def __init__(self, text: str, class_id: int = 0, method_id: int = 0) -> None:
        super().__init__(ReplyCode.FRAME_ERROR, text, class_id, method_id)


def unexpected_frame(text: str) -> AmqpError:
    """Return the error of a well-formed frame that is not allowed here (505)."""
    return AmqpError(ReplyCode.UNEXPECTED_FRAME, text)


REPLY_OF_CODE: Final[dict[Code, ReplyCode]] = {
    Code.BAD_REQUEST: ReplyCode.PRECONDITION_FAILED,
    Code.ILLEGAL_TOPIC: ReplyCode.PRECONDITION_FAILED,
    Code.ILLEGAL_CONSUMER_GROUP: ReplyCode.PRECONDITION_FAILED,
    Code.INVALID_TRANSACTION_ID: ReplyCode.PRECONDITION_FAILED,
    Code.ILLEGAL_FILTER_EXPRESSION: ReplyCode.PRECONDITION_FAILED,
    Code.ILLEGAL_INVISIBLE_TIME: ReplyCode.PRECONDITION_FAILED,
    Code.ILLEGAL_DELIVERY_TIME: ReplyCode.PRECONDITION_FAILED,
    Code.INVALID_RECEIPT_HANDLE: ReplyCode.PRECONDITION_FAILED,
    Code.ILLEGAL_OFFSET: ReplyCode.PRECONDITION_FAILED,
    Code.UNAUTHORIZED: ReplyCode.ACCESS_REFUSED,
    Code.FORBIDDEN: ReplyCode.ACCESS_REFUSED,
    Code.TOPIC_NOT_FOUND: ReplyCode.NOT_FOUND,
    Code.CONSUMER_GROUP_NOT_FOUND: ReplyCode.NOT_FOUND,
    Code.OFFSET_NOT_FOUND: ReplyCode.NOT_FOUND,
    Code.REQUEST_TIMEOUT: ReplyCode.INTERNAL_ERROR,
    Code.MESSAGE_BODY_TOO_LARGE: ReplyCode.PRECONDITION_FAILED,
    Code.PRECONDITION_FAILED: ReplyCode.PRECONDITION_FAILED,
    Code.TOO_MANY_REQUESTS: ReplyCode.RESOURCE_ERROR,
    Code.MESSAGE_PROPERTIES_TOO_LARGE: ReplyCode.PRECONDITION_FAILED,
    Code.INTERNAL_ERROR: ReplyCode.INTERNAL_ERROR,
    Code.UNAVAILABLE: ReplyCode.CONNECTION_FORCED,
    Code.OUTCOME_UNKNOWN: ReplyCode.INTERNAL_ERROR,
    Code.UNSUPPORTED: ReplyCode.NOT_IMPLEMENTED,
    Code.STORAGE_FULL: ReplyCode.RESOURCE_ERROR,
    Code.MESSAGE_CORRUPTED: ReplyCode.INTERNAL_ERROR,
    Code.COLD_CORRUPTED: ReplyCode.INTERNAL_ERROR,
}
"""The reply code for each refusal; the table below decides the scope."""

CHANNELS_CODES: Final = frozenset(
    (
        Code.REQUEST_TIMEOUT,
        Code.TOO_MANY_REQUESTS,
        Code.INTERNAL_ERROR,
        Code.OUTCOME_UNKNOWN,
        Code.STORAGE_FULL,
        Code.MESSAGE_CORRUPTED,
        Code.COLD_CORRUPTED,
    )
)
"""Refusals that end the channel only, though their reply code is a connection's: other channels are not involved."""


def amqp_error(code: Code, text: str, class_id: int = 0, method_id: int = 0) -> AmqpError:
    """Return the error for a refusal, with its scope."""
    is_connections = False if code in CHANNELS_CODES else None
    return AmqpError(REPLY_OF_CODE[code], text, class_id, method_id, is_connections)
