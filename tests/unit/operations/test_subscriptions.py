"""Subscriptions, their consent and their webhooks as operations tell them: without HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from entrepot.domain.access.model import EVERYTHING
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.events.subscriptions.record import StateRecord, SubscriptionRecord
from entrepot.gateway.events.subscriptions.subscriptions import Subscriptions
from entrepot.gateway.events.webhooks.circuit import Circuit
from entrepot.gateway.events.webhooks.handshake import Handshake
from entrepot.gateway.events.webhooks.last_answers import LastAnswers, SinkAnswer
from entrepot.gateway.events.webhooks.sink_client import SinkClient
from entrepot.gateway.messaging.topology import Topology
from entrepot.gateway.operations.nouns.consenting import ConsentHead, Consenting
from entrepot.gateway.operations.nouns.known_subscriptions import CONSUMING, KnownSubscriptions
from entrepot.gateway.operations.nouns.subscribing import Subscribing, SubscriptionsAsked
from entrepot.gateway.operations.nouns.subscription_definition import record_of
from entrepot.gateway.operations.nouns.subscription_shapes import TO_SUBSCRIBE, SubscriptionBody
from entrepot.gateway.operations.nouns.webhooks import WebhookDeliveries, WebhooksAsked
from entrepot.gateway.operations.row.asked import HEAD
from entrepot.gateway.operations.row.gathered import OTHER_VERSION
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.reading import read_body
from entrepot.gateway.operations.row.shapes import PlainName
from entrepot.gateway.peers.gathered import Gathered
from entrepot.gateway.security.security import Security
from entrepot.gateway.settings import Settings
from tests.support.clock import ManualClock
from tests.support.gateways.asked import asked
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced

NOW = 1_700_000_000_000
BODY: dict[str, Any] = {"source": "t", "sink": "https://sink.example/in", "protocol": "HTTP"}


class Peers:
    """This gateway is `a`; the others tell what they are given."""

    name = "a"

    def __init__(self) -> None:
        self.others: dict[str, Any] = {}
        self.own: Any = None

    def serve(self, view: str, answer: Any) -> None:
        self.own = answer

    async def gather(self, view: str, arguments: Any) -> Gathered:
        return Gathered({"a": await self.own(arguments), **self.others})


class World:
    """The nouns over a store in memory; the caller may consume the topics of `may`, or all."""

    def __init__(self) -> None:
        settings, clock = Settings(), ManualClock(NOW)
        self.store, self.may, self.peers = MemoryStore(clock), {EVERYTHING}, Peers()
        security = Security(self.store.key_values, settings.security, clock)
        may = lambda _principal, _action, _kind, name, _protocol="": EVERYTHING in self.may or name in self.may  # noqa: E731
        security = replaced(security, allows=may, check=lambda *_: None)
        self.subscriptions = Subscriptions(self.store, 10)
        client = SinkClient(settings.webhooks)
        self.handshake = Handshake(self.subscriptions, client, settings.webhooks, clock)
        self.deliverers: dict[str, Any] = {}
        webhooks: Any = SimpleNamespace(
            client=client, handshake=self.handshake, deliverer=lambda each: self.deliverers.get(each.key)
        )
        known = KnownSubscriptions(self.subscriptions, security)
        topology = Topology(self.store, settings.topics)
        self.subscribing = Subscribing(known, webhooks, self.store, topology, clock, "required")
        self.webhooks = WebhookDeliveries(known, webhooks, self.store, cast("Any", self.peers), clock, 7)
        self.consenting = Consenting(self.handshake)

    async def subscribed(self, **fields: Any) -> str:
        body = msgspec.convert({**BODY, **fields}, SubscriptionBody)
        return (await self.subscribing.create(asked(), body)).value.id


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    await made.subscriptions.start()
    yield made
    made.subscriptions.close()
    await made.store.close()


def read(body: bytes) -> SubscriptionBody:
    return read_body(msgspec.json.Decoder(SubscriptionBody), body)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"config": {"mode": "fast"}}, "config.mode: Input should be 'binary', 'structured' or 'batched'"),
        ({"config": {"unknown": 1}}, "config.unknown: Extra inputs are not permitted"),
        ({"config": None}, "config: must not be null"),
        ({"config": {"maxattempts": 0}}, "config.maxattempts: Input should be greater than or equal to 1"),
        ({"protocol": "MQTT5"}, "protocol: Input should be 'HTTP'"),
        ({"types": [""]}, "types.0: String should have at least 1 character"),
        (
            {"protocolsettings": {"headers": {f"x{each}": "" for each in range(33)}}},
            "protocolsettings.headers: Dictionary should have at most 32 items",
        ),
    ],
)
def test_a_body_is_refused_with_its_place(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(EntrepotError) as refused:
        read(msgspec.json.encode({**BODY, **fields}))
    assert refused.value.message == words


def test_a_secret_that_is_not_given_is_kept_and_null_ends_it() -> None:
    credential = {"credentialtype": "PLAIN", "identifier": "me", "secret": "pw"}
    signing = "whsec_" + "a" * 32
    whole = {**BODY, "sinkcredential": credential, "config": {"signingsecret": signing}}
    before = record_of(read(msgspec.json.encode(whole)), "default", "made", 0, "off")

    def after(**fields: Any) -> SubscriptionRecord:
        return record_of(read(msgspec.json.encode({**BODY, **fields})), "default", "made", 1, "off", before)

    kept, ended = after(), after(sinkcredential=None, config={"signingsecret": None})
    assert (kept.credential, kept.signing_secret) == (before.credential, signing)
    assert (ended.credential, ended.signing_secret) == (None, "")
    with pytest.raises(EntrepotError, match="sinkcredential: must be said, or null"):
        after(sink="https://other.example/in")


async def test_what_is_made_is_told_with_its_path(world: World) -> None:
    request = asked()
    made = (await world.subscribing.create(request, msgspec.convert(TO_SUBSCRIBE, SubscriptionBody))).value
    assert request.answer_headers == {"location": f"/subscriptions/{made.id}"}
    assert request.told == ((f"subscription {made.id}", "to topic factory"),)
    assert made.protocolsettings.headers == {"x-api-key": "***"}
    assert (made.status.state, made.status.lastanswer) == ("unverified", msgspec.UNSET)
    assert await world.subscribing.show(PlainName(made.id), asked(id=made.id)) == made
    await world.store.topology.put_namespace("plant")
    below = asked(namespace="plant")
    made = (await world.subscribing.create(below, msgspec.convert(BODY, SubscriptionBody))).value
    assert below.answer_headers == {"location": f"/namespaces/plant/subscriptions/{made.id}"}
    assert made.source == "/plant/t"


async def test_a_subscription_that_is_not_there_needs_the_right_to_all_topics(world: World) -> None:
    made = await world.subscribed()
    [need] = CONSUMING.needs(world.webhooks, asked(id=made))
    [of_none] = CONSUMING.needs(world.webhooks, asked(id="none"))
    assert (need.name, of_none.name) == ("t/#", EVERYTHING)
    assert CONSUMING.refusal is not None
    told = [CONSUMING.refusal(asked(id=each)).replace(each, "X") for each in (made, "none")]
    assert told[0] == told[1]
    with pytest.raises(MissingError, match="there is no subscription 'none'"):
        await world.webhooks.show(PlainName("none"), asked(id="none"))


async def test_lists_have_what_the_caller_may_consume(world: World) -> None:
    made = sorted([await world.subscribed(), await world.subscribed(), await world.subscribed(source="u")])
    world.may = {"t/#"}
    of_t = [each.id for each in await world.subscribing.listed(asked(), SubscriptionsAsked())]
    assert len(of_t) == 2 and set(of_t) < set(made)
    page = await world.webhooks.listed(asked(), WebhooksAsked(limit=1))
    assert ([each.id for each in page.value], page.next) == (of_t[:1], of_t[0])
    rest = await world.webhooks.listed(asked(), WebhooksAsked(after=of_t[0], state="unverified"))
    assert ([each.id for each in rest.value], rest.next) == (of_t[1:], None)
    assert (await world.webhooks.listed(asked(), WebhooksAsked(source="u"))).value == []


async def test_deliveries_of_all_gateways_and_one_of_another_version(world: World) -> None:
    made = await world.subscribed(config={"maxattempts": 3})
    [subscription] = world.subscriptions.all()
    answers = LastAnswers()
    answers.add(SinkAnswer(NOW, 21, 503, "", "retry", 1, 1))
    circuit = Circuit(3, 1.0, 2.0)
    deliverer: Any = SimpleNamespace(
        in_flight=1, circuit=("closed", circuit.failures, 0.0), answers=answers, is_open=False
    )
    world.deliverers[subscription.key] = deliverer
    own = await world.peers.own({"keys": [subscription.key], "most": 1})
    world.peers.others = {"b": own, "old": {subscription.key: {"requests": 1}}}
    shown = await world.webhooks.show(PlainName(made), asked(id=made))
    assert [each.gateway for each in shown.deliveries] == ["a", "b"]
    assert [(each.status, each.fault, each.outcome) for each in shown.deliveries[1].answers] == [(503, None, "retry")]
    assert [(each.name, each.reason) for each in shown.answered.missing] == [("old", OTHER_VERSION)]
    assert (shown.retry_delays_seconds, shown.waiting, shown.waiting_limit) == ([1.0, 2.0], 0, 7)
    status = (await world.subscribing.show(PlainName(made), asked(id=made))).status
    assert (status.lastanswer, status.circuitopen) == ("503", False)


async def test_consent_is_by_the_token_and_a_head_grants_nothing(world: World) -> None:
    made = await world.subscribed()
    [subscription] = world.subscriptions.all()
    assert await world.subscriptions.put_state(subscription, StateRecord(callback_token="secret"))
    where = (PlainName("default"), PlainName(made))
    with pytest.raises(MissingError):
        await world.consenting.consent(*where, PlainName("other"), ConsentHead(), asked())
    looked = asked()
    looked.scope = {HEAD: True}
    await world.consenting.consent(*where, PlainName("secret"), ConsentHead(), looked)
    assert world.subscriptions.state(subscription).consent == ""
    with pytest.raises(EntrepotError) as refused:
        await world.consenting.consent(*where, PlainName("secret"), ConsentHead("-1"), asked())
    assert refused.value.code is Code.BAD_REQUEST
    await world.consenting.consent(*where, PlainName("secret"), ConsentHead("120"), asked())
    state = world.subscriptions.state(subscription)
    assert (state.consent, state.allowed_rate) == ("granted", 120)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("5", 5.0),
        (" 0.5 ", 0.5),
        (30, 30.0),
        ("x", "config.timeoutseconds: Input should be a valid number, unable to parse string as a number"),
        ("nan", "config.timeoutseconds: Input should be a finite number"),
        ("301", "config.timeoutseconds: Input should be less than or equal to 300"),
        (301, "config.timeoutseconds: Input should be less than or equal to 300"),
    ],
)
def test_seconds_may_be_texts(given: object, told: float | str) -> None:
    body = msgspec.json.encode({**BODY, "config": {"timeoutseconds": given}})
    if isinstance(told, float):
        assert record_of(read(body), "default", "made", 0, "off").timeout_seconds == told
        return
    with pytest.raises(EntrepotError) as refused:
        record_of(read(body), "default", "made", 0, "off")
    assert refused.value.message.startswith(told)
