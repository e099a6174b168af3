"""Subscribing: the CloudEvents Subscriptions API (draft).  A subscription delivers events of a topic to a sink.

It needs the right to consume all of its topic.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from entrepot.domain.access.model import EVERYTHING, Action, ResourceType, whole_topic
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.events.subscriptions.record import TlsChoice
from entrepot.gateway.operations.nouns.known_subscriptions import CHANGING, CONSUMING, KnownSubscriptions
from entrepot.gateway.operations.nouns.start_position import position_of
from entrepot.gateway.operations.nouns.subscription_definition import record_of
from entrepot.gateway.operations.nouns.subscription_shapes import (
    TO_SUBSCRIBE,
    SubscriptionBody,
    SubscriptionShown,
    fields_of,
)
from entrepot.gateway.operations.row.asked import Asked, known_namespace
from entrepot.gateway.operations.row.change_names import NAMESPACE_PATH
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.rights import HANDLERS_OWN, PROTOCOL
from entrepot.gateway.operations.row.shapes import Created, PlainName, Query

if TYPE_CHECKING:
    from entrepot.domain.clock import Clock
    from entrepot.domain.ports import Store
    from entrepot.gateway.events.subscriptions.record import Subscription, SubscriptionRecord
    from entrepot.gateway.events.webhooks.webhooks import Webhooks
    from entrepot.gateway.messaging.topology import Topology

PATH: Final = "/subscriptions"
MAX_LISTED: Final = 1000


class SubscriptionsAsked(Query, frozen=True):
    source: Annotated[Annotated[str, Meta(max_length=256)] | None, Meta(description="Topic of the subscriptions")] = (
        None
    )
    after: Annotated[Annotated[str, Meta(max_length=64)] | None, Meta(description="Id after which the list begins")] = (
        None
    )
    limit: Annotated[int, Meta(ge=1, le=MAX_LISTED)] = 100


SUBSCRIPTIONS: Final = Noun("subscriptions", PATH, "subscription", is_in_namespaces=True, prefix="")


class Subscribing:
    """The operations of subscriptions."""

    def __init__(
        self,
        known: KnownSubscriptions,
        webhooks: Webhooks,
        store: Store,
        topology: Topology,
        clock: Clock,
        default_handshake: str,
    ) -> None:
        self.known, self._webhooks, self._store, self._topology = known, webhooks, store, topology
        self._clock, self._default_handshake = clock, default_handshake

    @SUBSCRIPTIONS.post(
        "",
        "createSubscription",
        "Create a subscription, which delivers events of a topic to a sink",
        HANDLERS_OWN,
        outcome="Created",
        example=TO_SUBSCRIBE,
        answer_headers={"Location": "The path of the subscription"},
    )
    async def create(self, asked: Asked, body: SubscriptionBody) -> Created[SubscriptionShown]:
        made_id, now_ms = secrets.token_hex(8), self._clock.now_ms()
        owner = "" if asked.principal.is_anonymous else asked.principal.name
        record = record_of(body, asked.namespace, made_id, now_ms, self._default_handshake, owner=owner)
        self._check_sink(record)
        names = whole_topic(record.topic)
        self.known.security.check(asked.principal, Action.SUB, ResourceType.TOPIC, names, PROTOCOL)
        known_namespace(self._store, asked.namespace)
        if self._store.topology.topic(record.topic) is None:
            await self._topology.ensure(record.topic)
        made = await self.known.all.create(record, position_of(record.start))
        asked.tell(f"subscription {made.id}", f"to topic {record.topic}")
        below = NAMESPACE_PATH.format(namespace=asked.namespace) if "namespace" in asked.plain else ""
        asked.answer_headers["location"] = f"{below}{PATH}/{made.id}"
        return Created(self._shown(made))

    @SUBSCRIPTIONS.put("/{id}", "updateSubscription", "Replace a subscription", CHANGING, example=TO_SUBSCRIBE)
    async def update(self, id_: PlainName, asked: Asked, body: SubscriptionBody) -> SubscriptionShown:
        before, subscriptions = self.known.get(asked.namespace, id_), self.known.all
        now_ms = self._clock.now_ms()
        record = record_of(body, before.record.namespace, before.id, now_ms, before.record.handshake, before.record)
        if record.topic != before.topic or record.start != before.record.start:
            raise bad_request("source and config.start: cannot be changed: make another subscription")
        self._check_sink(record)
        state = subscriptions.state(before)
        made = await subscriptions.update(before, record)
        await subscriptions.renew_state(made, state, is_new_sink=record.sink != before.record.sink)
        return self._shown(made)

    @SUBSCRIPTIONS.delete("/{id}", "deleteSubscription", "Delete a subscription", CHANGING)
    async def delete(self, id_: PlainName, asked: Asked) -> None:
        await self.known.all.delete(self.known.get(asked.namespace, id_))

    @SUBSCRIPTIONS.get(
        "", "listSubscriptions", "List subscriptions to topics that the caller may consume", HANDLERS_OWN
    )
    async def listed(self, asked: Asked, query: SubscriptionsAsked) -> list[SubscriptionShown]:
        known = self.known
        if known.may_consume(asked.principal, EVERYTHING):  # without this right, none is visible
            known_namespace(self._store, asked.namespace)
        plain = None if query.source is None else query.source.rpartition("/")[2]
        return [self._shown(each) for each in known.listed(asked, query.after or "", plain)[: query.limit]]

    @SUBSCRIPTIONS.get("/{id}", "getSubscription", "Get a subscription with its state", CONSUMING)
    async def show(self, id_: PlainName, asked: Asked) -> SubscriptionShown:
        return self._shown(self.known.get(asked.namespace, id_))

    def _check_sink(self, record: SubscriptionRecord) -> None:
        endpoint = record.credential.tokenendpoint if record.credential else ""
        for where, url in (("sink", record.sink), ("sinkcredential.tokenendpoint", endpoint)):
            refusal = self._webhooks.client.refusal_of(url) if url else None
            if refusal is not None:
                raise EntrepotError(Code.BAD_REQUEST, f"{where}: {refusal}")

        for where, name in (("tls", record.tls), ("tokentls", record.token_tls)):
            refusal = self._webhooks.client.tls.refusal_of(TlsChoice(name, record.topic))
            if refusal is not None:
                raise bad_request(f"config.{where}: {refusal}")

    def _shown(self, subscription: Subscription) -> SubscriptionShown:
        shown = SubscriptionShown(**fields_of(subscription, self.known.all.state(subscription)))
        deliverer = self._webhooks.deliverer(subscription)
        if deliverer is None:
            return shown
        last, is_open = deliverer.answers.last or None, deliverer.is_open  # this gateway's view
        status = msgspec.structs.replace(shown.status, lastanswer=last, circuitopen=is_open)
        return msgspec.structs.replace(shown, status=status)
