"""Reply codes of AMQP 0-9-1 (section 1.4) with RabbitMQ's extensions, and their scope."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class ReplyCode(IntEnum):
    """The reasons in `connection.close`, `channel.close` and `basic.return`."""

    REPLY_SUCCESS = 200
    CONTENT_TOO_LARGE = 311
    NO_ROUTE = 312
    NO_CONSUMERS = 313
    CONNECTION_FORCED = 320
    INVALID_PATH = 402
    ACCESS_REFUSED = 403
    NOT_FOUND = 404
    RESOURCE_LOCKED = 405
    PRECONDITION_FAILED = 406
    FRAME_ERROR = 501
    SYNTAX_ERROR = 502
    COMMAND_INVALID = 503
    CHANNEL_ERROR = 504
    UNEXPECTED_FRAME = 505
    RESOURCE_ERROR = 506
    NOT_ALLOWED = 530
    NOT_IMPLEMENTED = 540
    INTERNAL_ERROR = 541


CONNECTION_ERRORS: Final = frozenset(
    code
    for code in ReplyCode
    if code >= ReplyCode.FRAME_ERROR or code in (ReplyCode.CONNECTION_FORCED, ReplyCode.INVALID_PATH)
)
"""Errors that end the whole connection; the others end their channel."""

MAX_REPLY_TEXT_BYTES: Final = 255
"""Limit of a reply text, a short string."""


def reply_text(code: int, text: str) -> str:
    """Return the text in RabbitMQ's form: the code's name, a dash, the explanation; cut to a short string."""
    try:
        whole = f"{ReplyCode(code).name} - {text}"
    except ValueError:
        whole = text
    raw = whole.encode("utf-8", "replace")
    if len(raw) <= MAX_REPLY_TEXT_BYTES:
        return raw.decode()
    return raw[: MAX_REPLY_TEXT_BYTES - 3].decode("utf-8", "ignore") + "..."
