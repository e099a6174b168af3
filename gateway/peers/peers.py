"""Peers: a question to all gateways of the cluster, this one included, with a deadline.

Each gateway answers on a port of its own, because several gateways of one machine may share the others.
`gateway/member` knows the others. Invariant: a gateway that does not answer is named with a reason, never left out.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import httpx2
import orjson
import structlog

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.member.others import OtherMembers
from entrepot.gateway.member.record import MemberRecord
from entrepot.gateway.peers.gathered import Gathered
from entrepot.gateway.peers.seal import Seals
from entrepot.gateway.work.periodic_work import PeriodicWork

PATH: Final = "/peer/"
SEAL_HEADER: Final = "entrepot-seal"
ANSWER_SECONDS: Final = 1.5
"""Longest wait for another gateway's answer."""
SILENT_ANSWER_SECONDS: Final = 0.3
"""Longest wait for a gateway that has not answered lately, so that it does not slow down every page."""
PING_SECONDS: Final = 10.0
"""Interval between questions whether the others are there."""
MAX_ANSWER_BYTES: Final = 32 << 20
MAX_CONNECTIONS: Final = 64
PING: Final = "ping"
_OK: Final = 200

View = Callable[[dict[str, Any]], Awaitable[Any]]
log = structlog.get_logger(__name__)


class Peers:
    """The gateways of the cluster, and this one's answers."""

    def __init__(self, members: OtherMembers) -> None:
        self.members = members
        self.seals: Seals | None = None
        self.views: dict[str, View] = {PING: _pinged}
        self._client: httpx2.AsyncClient | None = None
        self._former: list[httpx2.AsyncClient] = []
        self._tls: Callable[[], ssl.SSLContext | None] = lambda: None
        self._context: ssl.SSLContext | None = None
        self.pinging = PeriodicWork("other gateways", PING_SECONDS, self._ping_all)

    @property
    def name(self) -> str:
        """This gateway's name."""
        return self.members.own.name

    # -- life ----------------------------------------------------------------------------------------------------

    async def start(self, seals: Seals, tls: Callable[[], ssl.SSLContext | None], wait_seconds: float) -> None:
        """Make this gateway known, and follow the others. A store without key-values has no others. `tls`: returns the
        present context of questions."""
        self.seals, self._tls = seals, tls
        self._renew()
        if await self.members.start(wait_seconds) and self.members.own.address:
            self.pinging.start()

    def _renew(self) -> None:
        """Ask by a new client once the certificates have changed; questions of the former one end."""
        context = self._tls()
        if self._client is not None and context is self._context:
            return
        if self._client is not None:
            self._former.append(self._client)
        self._context = context
        self._client = httpx2.AsyncClient(
            verify=True if context is None else context,
            trust_env=False,
            follow_redirects=False,
            limits=httpx2.Limits(max_connections=MAX_CONNECTIONS),
        )

    async def close(self) -> None:
        """Ask no more."""
        await self.pinging.close()
        for client in (self._client, *self._former):
            if client is not None:
                await client.aclose()

    async def _ping_all(self) -> None:
        former, self._former = self._former, []  # nobody waits so long for an answer
        for client in former:
            await client.aclose()
        self._renew()
        await self.gather(PING)
        await self.members.keep()

    # -- questions -------------------------------------------------------------------------------------------------

    def serve(self, view: str, answer: View) -> None:
        """Register this gateway's answer to a view. It takes and returns JSON values."""
        self.views[view] = answer

    async def gather(self, view: str, arguments: Mapping[str, Any] | None = None) -> Gathered:
        """Ask all gateways at once. An answer that does not come in time is missing, with the reason."""
        given = dict(arguments or {})
        others = self.members.others()
        names = _unique_names([(self.members.own_id, self.members.own), *others])
        questions = [self.views[view](given), *(self._asked(peer_id, each, view, given) for peer_id, each in others)]
        found = await asyncio.gather(*questions, return_exceptions=True)
        answers: dict[str, Any] = {}
        missing: dict[str, str] = {}
        for name, answer in zip(names, found, strict=True):
            if isinstance(answer, EntrepotError):
                missing[name] = answer.message
            elif isinstance(answer, BaseException):
                raise answer
            else:
                answers[name] = answer
        return Gathered(answers, missing)

    async def ask(self, gateway: str, view: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """Ask one gateway by name. Raises UNAVAILABLE where it does not answer, BAD_REQUEST for an unknown name, and
        what the view refuses."""
        given = dict(arguments or {})
        if gateway == self.name:
            return await self.views[view](given)
        others = self.members.others()
        names = _unique_names([(self.members.own_id, self.members.own), *others])
        for name, (peer_id, record) in zip(names[1:], others, strict=True):
            if name == gateway:
                return await self._asked(peer_id, record, view, given)
        raise EntrepotError(Code.BAD_REQUEST, f"there is no gateway {gateway[:80]!r}")

    async def _asked(self, peer_id: str, peer: MemberRecord, view: str, arguments: dict[str, Any]) -> Any:
        seconds = SILENT_ANSWER_SECONDS if self.members.silent_ms(peer_id) and view != PING else ANSWER_SECONDS
        try:
            async with asyncio.timeout(seconds):
                status, body = await self._posted(peer_id, peer, view, orjson.dumps(arguments))
        except TimeoutError:
            raise self._silent(peer_id, f"no answer within {seconds:g} s") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise self._silent(peer_id, f"no connection: {error or type(error).__name__}") from None
        try:
            answer = orjson.loads(body)
            refusal = None if status == _OK else _refusal(answer)
        except (orjson.JSONDecodeError, KeyError, TypeError):  # another program there, or a gateway of another id
            raise self._silent(
                peer_id, f"no gateway of this cluster answers at its address (status {status})"
            ) from None
        self.members.note_answer(peer_id)
        if refusal is not None:
            raise refusal
        return answer

    async def _posted(self, peer_id: str, peer: MemberRecord, view: str, body: bytes) -> tuple[int, bytes]:
        assert self._client is not None
        assert self.seals is not None
        seal = self.seals.make(peer_id, view, body).decode()
        url = f"{'https' if peer.is_tls else 'http'}://{peer.address}{PATH}{view}"
        async with self._client.stream("POST", url, content=body, headers={SEAL_HEADER: seal}, timeout=None) as answer:
            parts, size = [], 0
            async for part in answer.aiter_bytes():
                size += len(part)
                if size > MAX_ANSWER_BYTES:
                    raise EntrepotError(Code.UNAVAILABLE, f"the answer is larger than {MAX_ANSWER_BYTES} bytes")
                parts.append(part)
            return answer.status_code, b"".join(parts)

    def _silent(self, peer_id: str, reason: str) -> EntrepotError:
        self.members.note_answer(peer_id, is_silent=True)
        return EntrepotError(Code.UNAVAILABLE, reason)


async def _pinged(arguments: dict[str, Any]) -> Any:
    return {}


def _refusal(answer: Any) -> EntrepotError:
    """A refusal of another gateway; a code of a later version counts as UNAVAILABLE.  Raises KeyError, TypeError."""
    code = Code.__members__.get(answer["code"], Code.UNAVAILABLE)
    return EntrepotError(code, str(answer["message"]))


def _unique_names(gateways: list[tuple[str, MemberRecord]]) -> list[str]:
    """The gateways' names, with part of the id where a name is taken."""
    taken: set[str] = set()
    names = []
    for peer_id, record in gateways:
        name = record.name if record.name not in taken else f"{record.name} ({peer_id[:6]})"
        taken.add(name)
        names.append(name)
    return names
