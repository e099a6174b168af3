"""`/topics/{topic}/eventsubscriptions/{group}:stream`: a consumer of a group on a WebSocket.

ADR 38: one leased consumer. Invariant: it has at most its credit of unsettled events. It settles them by their lock
tokens.  Unsettled events return to the group when the connection ends.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qs

import structlog

from entrepot.domain.access.model import Action, ResourceType, access_name, whole_topic
from entrepot.domain.errors import PASSING, Code, EntrepotError
from entrepot.domain.event_filters.event_filter import EventFilters
from entrepot.domain.names import DEFAULT_NAMESPACE, NAMESPACE_SEPARATOR, check_group_name, check_topic_name, qualified
from entrepot.domain.ports import MAX_POP_MESSAGES, PopRequest
from entrepot.gateway.door.parts import Parts
from entrepot.gateway.door.shown import ConnectedClient
from entrepot.gateway.http.requests.access import HttpAccess
from entrepot.gateway.http.requests.asgi import Receive, Scope, Send, decoded_name
from entrepot.gateway.http.requests.page_guard import check_page
from entrepot.gateway.http.requests.problems import ProblemAnswer, answer_of, answer_of_status, log_fault, log_refusal
from entrepot.gateway.http.streaming import frames
from entrepot.gateway.http.streaming.socket_paths import place_in
from entrepot.gateway.messaging.group_consumer import GroupConsumer
from entrepot.gateway.messaging.leased_consumer import LeasedConsumer
from entrepot.gateway.messaging.messages_that_fit import MessagesThatFit
from entrepot.gateway.messaging.ticket import Ticket
from entrepot.gateway.operations.nouns.event_filters import filters_in
from entrepot.gateway.operations.nouns.filtered_pop import wants
from entrepot.gateway.operations.nouns.pull_delivery import ensure_both
from entrepot.gateway.operations.row.asked import known_namespace
from entrepot.gateway.transport.web_origin import WebOrigins
from entrepot.protocols.cloudevents.errors import CloudEventError

DEFAULT_CREDIT: Final = 10
WAIT_MS: Final = 5_000
"""Longest wait of one pop, in milliseconds."""
MAX_POPPED_BYTES: Final = 1 << 20
"""Maximum size of one pop, estimated from the last events: a client that does not read holds this much memory."""
PART: Final = "websocket"
PAUSE_SECONDS: Final = 0.2
_POLICY_VIOLATION: Final = 1008
_GOING_AWAY: Final = 1001
_UNSUPPORTED: Final = 1003

log = structlog.get_logger(__name__)


class EventSockets:
    """The ASGI application for WebSockets."""

    def __init__(self, parts: Parts, access: HttpAccess, origins: WebOrigins) -> None:
        self._parts, self._access, self._origins = parts, access, origins
        self.count = 0
        self._open: set[_Consumer] = set()

    def consumers_of(self, group: str) -> list[GroupConsumer]:
        """The open connections that consume for a group."""
        return [consumer.told() for consumer in self._open if consumer.group == group]

    def clients(self) -> list[ConnectedClient]:
        """The open connections, as the door's clients."""
        return [consumer.connected() for consumer in self._open]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection from its handshake on."""
        await receive()  # websocket.connect
        try:
            consumer = await self._consumer(scope, receive, send)
        except (EntrepotError, CloudEventError) as error:
            problem = answer_of(error)
            log_refusal("GET", scope["path"], problem.status, error.message)
            await _refuse(scope, send, problem)
            return
        except Exception as error:  # noqa: BLE001 - the boundary: whatever it was, the client gets an answer
            await _refuse(scope, send, log_fault("GET", scope["path"], error))
            return
        if consumer is None:
            await _refuse(scope, send, answer_of_status(404, "there is nothing at this path"))
            return
        self.count += 1
        self._open.add(consumer)
        try:
            await send({"type": "websocket.accept", "subprotocol": frames.SUBPROTOCOL})
            await consumer.run()
        finally:
            self.count -= 1
            self._open.discard(consumer)

    async def _consumer(self, scope: Scope, receive: Receive, send: Send) -> _Consumer | None:
        """Admit a consumer; None for an unknown path."""
        place = place_in(scope.get("raw_path") or scope["path"].encode())
        if place is None:
            return None
        parts = self._parts
        check_page(scope["headers"], self._origins)
        principal = await self._access.principal(scope)
        raw_namespace, raw_topic, raw_group = place
        plain_topic, plain_group = decoded_name(raw_topic), decoded_name(raw_group)
        check_group_name(plain_group)
        if NAMESPACE_SEPARATOR in plain_topic:
            check_topic_name(plain_topic)
        namespace = DEFAULT_NAMESPACE if raw_namespace is None else decoded_name(raw_namespace)
        topic, group = qualified(namespace, plain_topic), qualified(namespace, plain_group)

        def check_rights() -> None:
            self._access.check(principal, Action.SUB, ResourceType.TOPIC, whole_topic(topic))
            self._access.check(principal, Action.SUB, ResourceType.GROUP, access_name(group))

        check_rights()
        known_namespace(parts.store, namespace)
        if frames.SUBPROTOCOL not in scope.get("subprotocols", ()):
            raise EntrepotError(Code.BAD_REQUEST, f"the sub-protocol to ask for is {frames.SUBPROTOCOL!r}")
        if not parts.is_ready() or self.count >= parts.settings.http.max_event_sockets:
            raise EntrepotError(Code.TOO_MANY_REQUESTS, "no more WebSockets are taken now")
        await ensure_both(parts.store, parts.topology, parts.settings.groups, topic, group)
        query = parse_qs((scope.get("query_string") or b"").decode("latin-1"))
        filters = filters_in(_last(query, "filters"), _last(query, "cesql"))
        client = GroupConsumer("websocket", _peer(scope), principal.name, principal.source, (topic,))
        return _Consumer(parts, topic, group, _credit_in(query), filters, check_rights, receive, send, client)


class _Consumer:
    """One open connection.  `check_rights` is called again before each delivery and settlement, because rights may
    change."""

    def __init__(
        self,
        parts: Parts,
        topic: str,
        group: str,
        credit: int,
        filters: EventFilters,
        check_rights: Callable[[], None],
        receive: Receive,
        send: Send,
        client: GroupConsumer,
    ) -> None:
        self._parts, self._store = parts, parts.store
        self._topic, self.group, self._credit = topic, group, credit
        self._client, self._since_ms = client, parts.clock.now_ms()
        self._filters, self._check_rights = filters, check_rights
        self._default_type = parts.settings.http.event_type
        self._receive, self._send = receive, send
        self._fit = MessagesThatFit()
        self._leased = LeasedConsumer(
            self._store, parts.clock, topic, group, renews=False, on_end=self._settled_or_over
        )
        self._held: dict[str, Ticket] = {}
        """Unsettled tickets by lock token."""
        self._room = asyncio.Event()
        self._count = 0
        self._source = f"/{topic}/{group}"
        self._loop = asyncio.get_running_loop()

    def told(self) -> GroupConsumer:
        """The connection, with the number of its unsettled messages."""
        return replace(self._client, held=len(self._held))

    def connected(self) -> ConnectedClient:
        peer, held = self._client.client, len(self._held)
        return ConnectedClient(peer, self._client.user, peer, self._since_ms, (self._topic,), held, self.group)

    async def run(self) -> None:
        """Serve the connection until either side ends it."""
        pushing = asyncio.ensure_future(self._push())
        listening = asyncio.ensure_future(self._listen())
        try:
            await asyncio.wait((pushing, listening), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (pushing, listening):
                task.cancel()
            results = await asyncio.gather(pushing, listening, return_exceptions=True)
            await self._leased.close()
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, OSError):  # OSError: the client has gone
                log.warning("a stream of events ended", topic=self._topic, group=self.group, exc_info=result)
                with contextlib.suppress(Exception):
                    await self._send({"type": "websocket.close", "code": 1011, "reason": "internal error"})

    # -- deliveries ----------------------------------------------------------------------------------------------

    async def _push(self) -> None:
        while self._parts.is_ready():
            room = self._credit - len(self._held)
            if room <= 0:
                self._room.clear()
                await self._room.wait()
                continue
            count = min(room, MAX_POP_MESSAGES, self._fit.in_bytes(MAX_POPPED_BYTES))
            try:
                tickets = await self._pop(count)
            except EntrepotError as refusal:
                await self._end(refusal)
                return
            if not await self._may_go_on():
                return
            await self._hand_out(tickets)
        await self._send({"type": "websocket.close", "code": _GOING_AWAY, "reason": "the server is stopping"})

    async def _pop(self, count: int) -> list[Ticket]:
        """Pop and return matching messages.  All are held before the first is sent, so that an end returns all of them.
        A short outage of the store does not end the connection."""
        asked = self._loop.time()
        try:
            popped = await self._leased.ask(PopRequest(self._topic, self.group, count, WAIT_MS))
        except EntrepotError as refusal:
            if refusal.code not in PASSING:
                raise
            await self._leased.refused(refusal)
            return []
        if not popped and self._loop.time() - asked < WAIT_MS / 2000:
            await asyncio.sleep(PAUSE_SECONDS)
        wanted = [ticket for ticket in popped if wants(self._filters, ticket.message, self._default_type)]
        self._held.update((ticket.receipt_handle, ticket) for ticket in wanted)
        if len(wanted) < len(popped):
            self._leased.acknowledge([ticket for ticket in popped if ticket.receipt_handle not in self._held])
        return wanted

    async def _hand_out(self, tickets: Sequence[Ticket]) -> None:
        self._fit.note(max((len(each.message.body) for each in tickets), default=0))
        incidents = self._parts.sender.incidents
        texts = incidents.encoded(
            PART,
            tickets,
            lambda ticket: frames.encode_delivery(ticket, self._default_type, incidents.unsaid),
            lambda ticket: ticket.message,
            lambda ticket: ticket.consumer.forget((ticket,)),
        )
        for text in texts:
            await self._send({"type": "websocket.send", "text": text})
        self._parts.sender.traffic.count_out(self._topic, self.group, tickets)

    def _settled_or_over(self, tickets: Sequence[Ticket], is_back: bool) -> None:
        for ticket in tickets:
            self._held.pop(ticket.receipt_handle, None)
        self._room.set()

    # -- controls ------------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                return
            text = message.get("text")
            if text is None:
                await self._send(
                    {"type": "websocket.close", "code": _UNSUPPORTED, "reason": "text frames only, each an event"}
                )
                return
            if not await self._may_go_on():
                return
            try:
                control = frames.decode_control(text.encode("utf-8", "surrogatepass"))
                await self._obey(control)
            except (CloudEventError, EntrepotError) as error:
                await self._tell_problem("" if isinstance(error, CloudEventError) else control.id, error)

    async def _obey(self, control: frames.Control) -> None:
        data = control.data
        if isinstance(data, frames.Credit):
            self._credit = data.credit
            self._room.set()
            return
        tokens = data.lock_tokens
        outcomes = await self._settle(control.type, data)
        known = [(self._held[token], why) for token, why in zip(tokens, outcomes, strict=True) if token in self._held]
        is_renewal = control.type == frames.RENEW
        self._leased.leases.prolong([ticket for ticket, refusal in known if is_renewal and refusal is None])
        self._leased.forget([ticket for ticket, refusal in known if not is_renewal or refusal is not None])
        self._count += 1
        text = frames.encode_settled(control.id, self._source, self._count, tokens, outcomes)
        await self._send({"type": "websocket.send", "text": text})

    async def _settle(self, kind: str, data: frames.Settling) -> Sequence[EntrepotError | None]:
        store, topic, group, tokens = self._store, self._topic, self.group, data.lock_tokens
        if kind == frames.ACKNOWLEDGE:
            return await store.consumption.acknowledge(topic, group, tokens)
        if kind == frames.REJECT:
            return await store.consumption.reject(topic, group, tokens)
        if kind == frames.RENEW:
            return await store.consumption.change_invisible_duration(topic, group, tokens, None, release=False)
        delay_ms = int(data.release_delay_in_seconds * 1000)
        return await store.consumption.change_invisible_duration(topic, group, tokens, delay_ms, release=True)

    async def _tell_problem(self, answered: str, error: EntrepotError | CloudEventError) -> None:
        self._count += 1
        text = frames.encode_problem(answered, self._source, self._count, answer_of(error).body)
        await self._send({"type": "websocket.send", "text": text})

    # -- the end -------------------------------------------------------------------------------------------------

    async def _may_go_on(self) -> bool:
        """True if the rights still hold; else send the refusal and close."""
        try:
            self._check_rights()
        except EntrepotError as refusal:
            await self._end(refusal)
            return False
        return True

    async def _end(self, refusal: EntrepotError) -> None:
        await self._tell_problem("", refusal)
        await self._send(
            {
                "type": "websocket.close",
                "code": _POLICY_VIOLATION,
                "reason": refusal.message.encode()[:120].decode(errors="ignore"),
            }
        )


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return f"{client[0]}:{client[1]}" if client else ""


def _last(query: Mapping[str, list[str]], name: str) -> str | None:
    given = query.get(name)
    return given[-1] if given else None


def _credit_in(query: Mapping[str, list[str]]) -> int:
    text = _last(query, "credit")
    if text is None:
        return DEFAULT_CREDIT
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) <= frames.MAX_CREDIT):
        raise EntrepotError(Code.BAD_REQUEST, f"credit: must be 0 to {frames.MAX_CREDIT}, not {text[:40]!r}")
    return int(text)


async def _refuse(scope: Scope, send: Send, problem: ProblemAnswer) -> None:
    if "websocket.http.response" not in scope.get("extensions", {}):
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        return
    headers = [*problem.raw_headers(), (b"content-length", str(len(problem.body)).encode())]
    await send({"type": "websocket.http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": problem.body})
