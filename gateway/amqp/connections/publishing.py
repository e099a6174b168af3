"""ChannelPublishing: one channel's publishes, confirms, returns and transactions.

A run of publishes becomes one send.  A confirm means that the message is durable in every queue it was routed to.  An
unroutable mandatory message is returned before its confirm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final

import structlog

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.exchanges.routing import UnknownExchange
from entrepot.domain.message import Message, SystemProperty
from entrepot.gateway.amqp.connections.channel_output import ChannelOutput
from entrepot.gateway.amqp.connections.client import ClientInfo
from entrepot.gateway.amqp.connections.names import REPLY_TO_QUEUE
from entrepot.gateway.amqp.connections.remembered_publishes import NOTHING, Known
from entrepot.gateway.amqp.connections.services import AmqpServices
from entrepot.gateway.amqp.virtual_hosts.vhost import Vhost
from entrepot.gateway.messaging.incidents import Outcome
from entrepot.gateway.messaging.send import Refusals
from entrepot.protocols.amqp.connection_events import Publish
from entrepot.protocols.amqp.content import ContentHeader
from entrepot.protocols.amqp.delivery import content_template
from entrepot.protocols.amqp.errors import AmqpError
from entrepot.protocols.amqp.mapping import BCC, CC, expiration_ms, without_bcc
from entrepot.protocols.amqp.reply_codes import ReplyCode

PART: Final = "amqp"
PUBLISH_OVERHEAD: Final = 1024
"""Estimated memory of the objects around a publish in a transaction, in bytes."""
FURTHER_KEYS: Final = (CC, BCC)
"""Headers with further routing keys: each needs its own right."""

log = structlog.get_logger(__name__)


class ChannelPublishing:
    """One channel's publishing."""

    __slots__ = (
        "_client",
        "_idle",
        "_is_relief_asked",
        "_sequence",
        "_under_way",
        "_vhost",
        "confirms",
        "has_published",
        "is_tx",
        "out",
        "refused_in_tx",
        "reply_queue",
        "services",
        "transaction",
        "transaction_bytes",
    )

    def __init__(self, services: AmqpServices, client: ClientInfo, vhost: Vhost, out: ChannelOutput) -> None:
        self.services, self._client, self._vhost, self.out = services, client, vhost, out
        self._sequence = 0
        self._is_relief_asked = False
        self._under_way = 0
        self._idle: asyncio.Future[None] | None = None
        self.confirms = self.has_published = False
        self.reply_queue = ""
        self.is_tx = False
        self.refused_in_tx = 0
        self.transaction: list[Publish] = []
        self.transaction_bytes = 0

    @property
    def is_under_way(self) -> bool:
        """True while a publish is not in its queues yet."""
        return self._under_way > 0

    async def settled(self) -> None:
        """Wait until the channel's publishes are in their queues, so that later methods count them."""
        if self._under_way:
            self._idle = self._idle or asyncio.get_running_loop().create_future()
            await self._idle

    def note_under_way(self, change: int) -> None:
        self._under_way += change
        if not self._under_way and self._idle is not None:
            self._idle.set_result(None)
            self._idle = None

    def take(self, publishes: list[Publish]) -> Awaitable[None] | None:
        """Take a run of publishes.  Raises a channel error; the publishes before the faulty one are then on their
        way."""
        if not self.is_tx:
            return self._publish(publishes)
        for publish in publishes:
            self._check(publish)
        self.transaction_bytes += sum(map(_bytes_of, publishes))
        most = self.services.settings.max_transaction_bytes
        if self.transaction_bytes > most:
            text = f"a transaction of more than {most} bytes (amqp.max_transaction_bytes)"
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, text, 60, 40)
        self.transaction += publishes
        return None

    def roll_back(self) -> list[Publish]:
        """Discard the transaction's publishes and return them."""
        publishes, self.transaction, self.transaction_bytes = self.transaction, [], 0
        return publishes

    def _publish(self, publishes: Sequence[Publish]) -> Awaitable[None] | None:
        services, vhost, client = self.services, self._vhost, self._client
        client.has_published = self.has_published = True
        services.counters.published += len(publishes)
        now_ms = services.clock.now_ms()
        known = None if self.is_tx else services.remembered.of(vhost, client.principal, now_ms)
        of_key = (NOTHING if known is None else known).get
        messages: list[Message] = []
        unrouted: list[int] = []
        odd: list[int] = []
        try:
            for place, publish in enumerate(publishes):
                exchange, routing_key, mandatory, header, body = publish
                try:
                    found = of_key((exchange, routing_key, header.data))
                    if found is not None and (found.is_routed or not mandatory):
                        messages.append(found.message(body, now_ms))
                    elif (message := self._new_message(publish, known, now_ms)) is not None:
                        messages.append(message)
                    else:
                        unrouted.append(place)
                except (AmqpError, EntrepotError):
                    raise
                except Exception as fault:  # noqa: BLE001 - the others are to be published
                    self._refuse(publish, fault)
                    odd.append(place)
        finally:
            work = self._send(messages, unrouted, odd)
        if services.sender.is_full(self):
            self._pause()
        return work

    def _new_message(self, publish: Publish, known: Known | None, now_ms: int) -> Message | None:
        """Return the message of a publish, or None where no queue keeps it.  Raises a channel error."""
        services, vhost, given = self.services, self._vhost, publish
        if not publish.header.is_plain:
            self._check(publish)
            publish = self._with_reply_queue(publish)
        queues = self._route(publish)
        message = services.virtual_hosts.routing.message(vhost, publish, queues, now_ms)
        if not queues and publish.mandatory and not _waits(message):
            self._return(without_bcc(publish))
        elif message is None and not queues:
            services.counters.dropped += 1
        if message is not None and known is not None and publish is given:
            services.remembered.keep(known, vhost, publish, queues, message)
        return message

    def _refuse(self, publish: Publish, fault: Exception) -> None:
        """Note a publish whose handling failed by a fault of our own: it is not stored."""
        place, reason = f"{publish.exchange}/{publish.routing_key}", f"{type(fault).__name__}: {fault}"
        client = self._client.login_name
        self.services.incidents.note(PART, Outcome.REFUSED, reason, place=place, client=client, fault=fault)
        self.services.counters.refused += 1
        self.refused_in_tx += 1

    def _send(self, messages: list[Message], unrouted: list[int], odd: list[int]) -> Awaitable[None] | None:
        """Send a run's messages.  `unrouted`: places of unroutable publishes in it, which are confirmed at once; `odd`:
        of those that failed here, which are nacked."""
        out, first = self.out, self._sequence + 1
        tags: Sequence[int] = ()
        if self.confirms:
            self._sequence += len(messages) + len(unrouted) + len(odd)
            tags = range(first, self._sequence + 1)
            self.services.counters.to_confirm += len(tags)
            if odd:
                out.machine.confirm(out.number, [tags[place] for place in odd], is_nack=True)
            if unrouted:
                out.machine.confirm(out.number, [tags[place] for place in unrouted])
                self.services.counters.confirmed += len(unrouted)
            if unrouted or odd:
                done = {*unrouted, *odd}
                tags = [tag for place, tag in enumerate(tags) if place not in done]
        if not messages:
            return None
        self.note_under_way(1)
        if (provenance := self.services.sender.provenance).topics:
            provenance.mark(messages, "amqp", self._client.login_name, self._client.principal)
        sent = _Sent(self, len(messages), tags)
        if self._vhost.limited:
            return self.services.virtual_hosts.overflow.admit(self._vhost, messages, sent, self)
        self.services.sender.send(messages, sent, self)
        return None

    def _check(self, publish: Publish) -> None:
        header = publish.header
        if (expiration := header.expiration) is not None:
            try:
                expiration_ms(expiration)
            except ValueError as error:
                raise AmqpError(ReplyCode.PRECONDITION_FAILED, str(error), 60, 40) from None
        if text := not_own_user(header, self._client.login_name):
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, text, 60, 40)

    def _with_reply_queue(self, publish: Publish) -> Publish:
        """Replace the pseudo-queue of direct reply-to in `reply_to` by the channel's own queue."""
        if publish.header.reply_to != REPLY_TO_QUEUE:
            return publish
        if not self.reply_queue:
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, "fast reply consumer does not exist", 60, 40)
        return publish._replace(header=publish.header.replaced(reply_to=self.reply_queue))

    def _route(self, publish: Publish) -> tuple[str, ...]:
        """Return the queues of a publish.  Raises NOT_FOUND, ACCESS_REFUSED."""
        services, vhost = self.services, self._vhost
        name, header = publish.exchange, publish.header
        keys: Sequence[str] = (publish.routing_key,)
        if header.may_have_header(b"CC"):
            keys = all_keys(publish)
        services.access.check_publish(self._client, vhost, name, keys)
        exchange = vhost.routing.exchange(name)
        if exchange is None and services.virtual_hosts.routing.exchange_of_topic(vhost, name) is not None:
            return ()  # a topic without bindings: the message stays in its log
        if exchange is None:
            raise AmqpError(ReplyCode.NOT_FOUND, f"no exchange '{name}' in vhost '{vhost.name}'", 60, 40)
        if exchange.internal:
            text = f"cannot publish to internal exchange '{name}' in vhost '{vhost.name}'"
            raise AmqpError(ReplyCode.ACCESS_REFUSED, text, 60, 40)
        found = vhost.routing.route(name, keys, lambda: header.headers or {}, lambda: dict(header.values()))
        assert not isinstance(found, UnknownExchange)
        return found

    def _return(self, publish: Publish) -> None:
        self.services.counters.returned += 1
        template = content_template(publish.exchange, publish.routing_key, publish.header.data, publish.body)
        self.out.machine.return_(
            self.out.number, ReplyCode.NO_ROUTE, "NO_ROUTE", publish.exchange, publish.routing_key, template
        )

    # -- transactions --------------------------------------------------------------------------------------------

    async def commit(self) -> None:
        """Publish the transaction's messages; return when they are durable.  Raises AmqpError if any is refused; as in
        RabbitMQ, the rest may be stored."""
        publishes, self.refused_in_tx = self.roll_back(), 0
        if not publishes:
            return
        work = self._publish(publishes)
        if work is not None:
            await work
        await self.settled()
        if self.refused_in_tx:
            text = f"partial tx completion: {self.refused_in_tx} of {len(publishes)} messages were refused"
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, text, 90, 20)

    # -- backpressure --------------------------------------------------------------------------------------------

    def _pause(self) -> None:
        self.out.driver.pause_reading(self)
        if not self._is_relief_asked:
            self._is_relief_asked = True
            self.services.sender.when_relieved(self._relieved, self)

    def _relieved(self) -> None:
        self._is_relief_asked = False
        self.out.driver.resume_reading(self)


class _Sent:
    """A run of sent messages, with their publish sequence numbers where they are to be confirmed."""

    __slots__ = ("publishing", "size", "tags")

    def __init__(self, publishing: ChannelPublishing, size: int, tags: Sequence[int]) -> None:
        self.publishing, self.size, self.tags = publishing, size, tags

    def __call__(self, failure: EntrepotError | None, refusals: Refusals) -> None:
        publishing, out = self.publishing, self.publishing.out
        publishing.note_under_way(-1)
        if not out.is_open:
            return
        if failure is not None:  # AMQP has no code for "unknown": a nack promises nothing, and the client continues
            refusals = [failure] * self.size
        counters = publishing.services.counters
        if refusals is not None:
            counters.refused += sum(refusal is not None for refusal in refusals)
            if any(refusal is not None and refusal.code is Code.STORAGE_FULL for refusal in refusals):
                publishing.services.storage_full()
        if not self.tags:
            if refusals is not None:
                count = sum(refusal is not None for refusal in refusals)
                publishing.refused_in_tx += count
                log.warning("messages were refused", seldom="amqp", peer=out.driver.peer, count=count)
            return
        counters.confirmed += len(self.tags)
        if refusals is None:
            out.machine.confirm(out.number, self.tags)
        else:
            taken = [tag for tag, refusal in zip(self.tags, refusals, strict=True) if refusal is None]
            refused = [tag for tag, refusal in zip(self.tags, refusals, strict=True) if refusal is not None]
            if taken:
                out.machine.confirm(out.number, taken)
            out.machine.confirm(out.number, refused, is_nack=True)
        out.driver.flush()


def _waits(message: Message | None) -> bool:
    """True for a delayed message: nobody knows yet where it will go."""
    return message is not None and SystemProperty.DELIVER_AT_MS in message.system


def _bytes_of(publish: Publish) -> int:
    return len(publish.body) + len(publish.header.data) + PUBLISH_OVERHEAD


def not_own_user(header: ContentHeader, login_name: str) -> str:
    """The text of a refusal where `user_id` names somebody else than the publisher; else empty."""
    if header.user_id is None or header.user_id == login_name:
        return ""
    return f"user_id property set to '{header.user_id}' but authenticated user was '{login_name}'"


def all_keys(publish: Publish) -> list[str]:
    """The routing key and the keys of the headers CC and BCC."""
    keys = [publish.routing_key]
    headers = publish.header.headers or {}
    for name in FURTHER_KEYS:
        more = headers.get(name, [])
        if not isinstance(more, list):
            text = f"invalid type '{type(more).__name__}' for header '{name}'"
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, text, 60, 40)
        keys += [key for key in more if isinstance(key, str)]
    return keys
