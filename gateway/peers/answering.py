"""The ASGI application of a gateway's private listener: sealed questions of other gateways."""

from __future__ import annotations

from typing import Any, Final

import orjson
import structlog

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.peers.peers import PATH, SEAL_HEADER, Peers

MAX_QUESTION_BYTES: Final = 1 << 20
_JSON: Final = [(b"content-type", b"application/json")]
_HEADER: Final = SEAL_HEADER.encode()
log = structlog.get_logger(__name__)


class PeerAnswers:
    """The application. Whatever is not a sealed question gets 403 without a reason."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = await _body(receive)
        view = scope["path"].removeprefix(PATH)
        if body is None or not self._is_right(scope, view, body):
            await _answer(send, 403, b"{}")
            return
        status, answer = await self._answered(view, body)
        await _answer(send, status, answer)

    def _is_right(self, scope: Any, view: str, body: bytes) -> bool:
        seal = next((value for name, value in scope["headers"] if name == _HEADER), b"")
        seals = self._peers.seals
        return seals is not None and seals.is_right(seal, self._peers.members.own_id, view, body)

    async def _answered(self, view: str, body: bytes) -> tuple[int, bytes]:
        answer = self._peers.views.get(view)
        if answer is None:
            return 400, _refusal(EntrepotError(Code.UNSUPPORTED, "this gateway's version does not know the question"))
        try:
            return 200, orjson.dumps(await answer(orjson.loads(body)))
        except EntrepotError as refusal:
            return 400, _refusal(refusal)
        except Exception:  # the boundary: the asking gateway gets an answer
            log.exception("a question of another gateway failed", view=view)
            return 500, _refusal(EntrepotError(Code.INTERNAL_ERROR, "the gateway could not answer"))


def _refusal(refusal: EntrepotError) -> bytes:
    return orjson.dumps({"code": refusal.code.name, "message": refusal.message})


async def _body(receive: Any) -> bytes | None:
    """The whole body; None where it is too large or the peer has gone."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_QUESTION_BYTES:
            return None
        if not message.get("more_body"):
            return b"".join(parts)


async def _answer(send: Any, status: int, body: bytes) -> None:
    headers = [*_JSON, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
