"""MQTT clients of all gateways: list, show, disconnect; their subscriptions, events, and the slow ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from entrepot.domain.access.model import Action
from entrepot.domain.errors import EntrepotError
from entrepot.gateway.operations.local_views import mqtt_client, mqtt_clients
from entrepot.gateway.operations.local_views.mqtt import MAX_LIMIT, MAX_TEXT, required_mqtt
from entrepot.gateway.operations.nouns.client_shapes import (
    GATEWAY,
    TIME,
    ClientEventPart,
    ClientEvents,
    ClientShown,
    ClientSubscription,
    Disconnected,
    SlowClient,
    WholeClientShown,
)
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.gathered import (
    After,
    GatewayAsked,
    OfAll,
    PageOfAll,
    answered,
    found_anywhere,
    gathered,
    merged_page,
    merged_page_by_key,
    readable,
)
from entrepot.gateway.operations.row.operation import Noun, Words
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.refusals import refusal_shown
from entrepot.gateway.operations.row.rights import cluster
from entrepot.gateway.operations.row.shapes import Body, Flag, Listed, PlainName, Query

if TYPE_CHECKING:
    from entrepot.gateway.mqtt.frontend import MqttFrontend
    from entrepot.gateway.peers.peers import Peers

_Text = Annotated[str, Meta(max_length=MAX_TEXT)]


class Disconnecting(Body, frozen=True):
    """Clients to disconnect."""

    ids: Annotated[list[str], Meta(min_length=1, max_length=MAX_LIMIT)]


class ClientsAsked(Query, frozen=True):
    prefix: Annotated[_Text, Meta(description="Prefix of the client ids")] = ""
    contains: Annotated[_Text, Meta(description="Part of the client ids")] = ""
    user: _Text | None = None
    gateway: GatewayAsked = None
    after: Annotated[_Text, Meta(description="Client id after which the list begins")] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = 100


class EventsAsked(Query, frozen=True):
    limit: Annotated[int, Meta(ge=1, le=mqtt_client.MAX_CLIENT_EVENTS), Flag("Maximum number of events.")] = 100


class SubscriptionsAsked(Query, frozen=True):
    client: _Text | None = None
    filter: Annotated[str | None, Meta(description="Topic filter, as the client wrote it")] = None
    gateway: GatewayAsked = None
    after: After = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = 100


class SlowAsked(Query, frozen=True):
    gateway: GatewayAsked = None
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = 20


CLIENTS: Final = Noun("clients", "", "client", "Clients connected to the gateways: MQTT's, and those of all doors.")
_SHOWN_AS: Final = {"id": "CLIENT"}


class Clients:
    """The operations of MQTT clients, and this gateway's answers to the others."""

    def __init__(self, peers: Peers, mqtt: MqttFrontend | None) -> None:
        self._peers, self._mqtt = peers, mqtt
        mqtt_clients.serve_mqtt_clients(peers, mqtt)
        mqtt_client.serve_mqtt_client(peers, mqtt)

    @CLIENTS.get(
        "/clients",
        "listClients",
        "List MQTT clients connected to any gateway, ordered by id",
        cluster(Action.LIST),
        shows={"next": "line-2"},
    )
    async def listed(self, query: ClientsAsked) -> PageOfAll[ClientShown]:
        required_mqtt(self._mqtt)
        asked = {"prefix": query.prefix, "contains": query.contains, "user": query.user, "after": query.after}
        return await merged_page(
            self._peers, mqtt_clients.CLIENTS, asked, ClientShown, limit=query.limit, gateway=query.gateway
        )

    @CLIENTS.get(
        "/clients/{id}",
        "getClient",
        "Get a client of any gateway in full",
        cluster(Action.GET),
        shows={"lastPacketSeconds": 0.2, "halfReceived": [9012], "isTraced": False},
        words=Words(
            "show",
            "Show a client of any gateway in full, always as JSON: its subscriptions, messages in flight, and why it "
            "does not send or get.",
            shown_as=_SHOWN_AS,
        ),
    )
    async def show(self, id_: PlainName) -> WholeClientShown:
        required_mqtt(self._mqtt)
        return await found_anywhere(
            self._peers, mqtt_client.CLIENT, {"id": id_}, WholeClientShown, missing_client(id_), "connectedSince"
        )

    @CLIENTS.get(
        "/clients/{id}/events",
        "listClientEvents",
        "List recent connects, refusals and ends of a client id at all gateways, the newest first",
        cluster(Action.GET),
        shows={"since": {GATEWAY: TIME}},
        words=Words(
            "events",
            "List recent connects, refusals and ends of a client id at all gateways, the newest first.",
            columns=("time", "event", "reason", "text", "count", "address", "gateway"),
            shown_as=_SHOWN_AS,
        ),
    )
    async def events(self, id_: PlainName, query: EventsAsked) -> ClientEvents:
        found = readable(await self._peers.gather(mqtt_client.EVENTS, {"id": id_}), ClientEventPart)
        rows = [
            {**event, "gateway": name} for name, answer in sorted(found.answers.items()) for event in answer["value"]
        ]
        rows.sort(key=lambda row: str(row["time"]), reverse=True)
        since = {name: answer["since"] for name, answer in found.answers.items()}
        return ClientEvents(msgspec.convert(rows[: query.limit], list[ClientEventPart]), since, answered(found))

    @CLIENTS.delete(
        "/clients/{id}",
        "disconnectClient",
        "Disconnect a client of any gateway",
        cluster(Action.UPDATE),
        change="client disconnected",
    )
    async def kick(self, id_: PlainName, asked: Asked) -> None:
        await _kick(required_mqtt(self._mqtt), id_)
        asked.tell(f"MQTT client {id_}")

    @CLIENTS.post(
        "/clients:disconnect",
        "disconnectClients",
        "Disconnect several clients of any gateways",
        cluster(Action.UPDATE),
        change="client disconnected",
        example={"ids": ["line-1", "line-2"]},
    )
    async def kick_each(self, body: Disconnecting, asked: Asked) -> Listed[Disconnected]:
        mqtt, outcomes = required_mqtt(self._mqtt), list[Disconnected]()
        for client_id in dict.fromkeys(body.ids):
            try:
                await _kick(mqtt, client_id)
            except EntrepotError as refusal:
                outcomes.append(Disconnected(client_id, False, refusal_shown(refusal)))
            else:
                outcomes.append(Disconnected(client_id, True))
        asked.tell_each(f"MQTT client {each.id}" for each in outcomes if each.disconnected)
        return Listed(outcomes)

    @CLIENTS.get(
        "/subscriptions",
        "listClientSubscriptions",
        "List subscriptions of MQTT clients of all gateways, ordered by client and filter",
        cluster(Action.LIST),
        shows={"next": "bGluZS0x"},
    )
    async def subscriptions(self, query: SubscriptionsAsked) -> PageOfAll[ClientSubscription]:
        required_mqtt(self._mqtt)
        return await merged_page_by_key(
            self._peers,
            mqtt_clients.SUBSCRIPTIONS,
            {"client": query.client, "filter": query.filter},
            ClientSubscription,
            limit=query.limit,
            after=query.after,
            gateway=query.gateway,
        )

    @CLIENTS.get(
        "/slow-subscribers",
        "listSlowSubscribers",
        "List the slowest clients of all gateways, the slowest first",
        cluster(Action.LIST),
    )
    async def slow(self, query: SlowAsked) -> OfAll[SlowClient]:
        required_mqtt(self._mqtt)
        found = await gathered(self._peers, mqtt_clients.SLOW, {"limit": query.limit}, query.gateway)
        found = readable(found, SlowClient)
        rows = [{**row, "gateway": name} for name, answer in found.answers.items() for row in answer["value"]]
        rows.sort(key=mqtt_clients.slowness, reverse=True)
        return OfAll(msgspec.convert(rows[: query.limit], list[SlowClient]), answered(found))


async def _kick(mqtt: MqttFrontend, client_id: str) -> None:
    """Disconnect a client of any gateway.  Raises MissingError where it is not connected."""
    here = mqtt.registry.of(client_id)
    if here is not None and here.machine.is_open:
        here.kick()
        return
    record = await mqtt.session_operations.get(client_id)
    if record is None or not record.owner:
        raise missing_client(client_id)
    await mqtt.session_operations.kick(client_id, record.owner, ends=False)


def missing_client(client_id: str) -> MissingError:
    """Return the refusal for a client that no gateway has."""
    return MissingError("client-not-found", "The client is not connected", f"{client_id[:80]!r} is not connected")
