"""Channel: the state of one channel, with the message under way on it.  A message is method, header and bodies; no
other frames may come between them on its channel (4.2.6)."""

from __future__ import annotations

from io import BytesIO
from struct import Struct
from typing import Final

from entrepot.protocols.amqp.confirms import Confirms
from entrepot.protocols.amqp.connection_events import Publish
from entrepot.protocols.amqp.content import ContentHeader, received_header
from entrepot.protocols.amqp.decoder import Target
from entrepot.protocols.amqp.errors import AmqpError, FrameError, unexpected_frame
from entrepot.protocols.amqp.frames import BODY, HEADER
from entrepot.protocols.amqp.reply_codes import ReplyCode

OPEN, CLOSING, CLOSE_OWED, REOPENABLE = range(4)
"""States.  `CLOSING`: the server has closed it, and waits for close-ok.  `CLOSE_OWED`: the client has, and waits for
ours.  `REOPENABLE`: both have at the same time; the client may open it again, or still send close-ok."""

_CONTENT_HEAD: Final = Struct(">HHQ")

_BASIC: Final = 60
_PUBLISH: Final = 40


class Channel:
    """One channel, open or not yet closed on both sides."""

    __slots__ = ("_body", "_header", "_missing", "_target", "assembled", "confirms", "state")

    def __init__(self) -> None:
        self.state = OPEN
        self.confirms = Confirms()
        self.assembled = 0
        """Bytes of the incomplete message."""
        self._target: Target | None = None
        self._header: ContentHeader | None = None
        self._missing = 0
        self._body = BytesIO()  # its value needs no further copy, unlike parts to be joined

    def close(self, state: int) -> None:
        """Close the channel, and drop a partial message."""
        self.state = state
        self._drop()

    def check_idle(self) -> None:
        """Raise UNEXPECTED_FRAME for a method within a message."""
        if self._target is not None:
            what = "content header for class 60" if self._header is None else "content body"
            raise unexpected_frame(f"expected {what}, got a method frame instead")

    def begin(self, target: Target) -> None:
        """Begin a message with its basic.publish."""
        self._target = target

    def take_content(self, kind: int, payload: bytes, max_message_size_bytes: int) -> Publish | None:
        """Take a header or body frame; returns the message if it is complete."""
        target = self._target
        if target is None:
            raise unexpected_frame("expected method frame, got non method frame instead")
        header = self._header
        if kind == HEADER:
            if header is not None:
                raise unexpected_frame("expected content body, got a content header frame instead")
            header = self._begin_body(payload, max_message_size_bytes)
        elif header is None or kind != BODY:
            raise unexpected_frame("expected content header for class 60, got a content body frame instead")
        else:
            self._missing -= len(payload)
            if self._missing < 0:
                raise FrameError("more content than its header announced", _BASIC, _PUBLISH)
            self._body.write(payload)
            self.assembled += len(payload)
        if self._missing:
            return None
        body = self._body.getvalue()
        self._drop()
        return Publish(*target, header, body)

    def _begin_body(self, payload: bytes, max_message_size_bytes: int) -> ContentHeader:
        if len(payload) < _CONTENT_HEAD.size:
            raise FrameError("a content header ends within its body size", _BASIC, _PUBLISH)
        class_id, _, body_size = _CONTENT_HEAD.unpack_from(payload)
        if class_id != _BASIC:
            raise unexpected_frame(f"expected content header for class 60, got one for class {class_id} instead")
        header = received_header(payload[_CONTENT_HEAD.size :])
        if body_size > max_message_size_bytes:
            text = f"message size {body_size} is larger than configured max size {max_message_size_bytes}"
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, text, _BASIC, _PUBLISH)
        self._header = header
        self._missing = body_size
        return header

    def _drop(self) -> None:
        self._target = self._header = None
        self._missing = self.assembled = 0
        if self._body.tell():
            self._body = BytesIO()
