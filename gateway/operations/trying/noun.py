"""Publish a test message as a client of any protocol would.

ADR 79: an operation is written once.  Invariant: the message passes the conversion, checks and rights of the door that
it names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.journey.lineage import places_of
from entrepot.gateway.operations.nouns.message_head import HEAD
from entrepot.gateway.operations.nouns.place import PlaceShown, place_shown
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.ids import id_text
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.rights import HANDLERS_OWN
from entrepot.gateway.operations.row.shapes import Part, one_of, shown_as
from entrepot.gateway.operations.trying.trials import (
    AMQP,
    DOORS,
    HTTP,
    MQTT,
    ROCKETMQ,
    AmqpTrial,
    HttpTrial,
    MqttTrial,
    RocketMqTrial,
    Stored,
)

if TYPE_CHECKING:
    from entrepot.domain.access.model import Principal
    from entrepot.domain.ports import Store
    from entrepot.gateway.operations.trying.trial_doors import AmqpDoor, HttpDoor, MqttDoor, RocketMqDoor


class Tried(Part, frozen=True):
    door: Annotated[str, one_of(DOORS)]
    id: str | None
    routed: bool
    places: list[PlaceShown]


shown_as(Tried(HTTP, HEAD["id"], True, [PlaceShown("factory", "default", 2, "41")]))

TRYING: Final = Noun("messages", "/messages", "message")


class Trying:
    """The operation of test messages."""

    def __init__(
        self,
        store: Store,
        http: HttpDoor,
        mqtt: MqttDoor,
        amqp: AmqpDoor,
        rocketmq: RocketMqDoor,
    ) -> None:
        self._store, self._http, self._mqtt, self._amqp, self._rocketmq = store, http, mqtt, amqp, rocketmq

    @TRYING.post(
        ":try",
        "tryMessage",
        "Publish a test message by the rules of a protocol",
        HANDLERS_OWN,
        about="Conversion, checks and rights are those of the protocol's clients.",
        outcome="Durable: where it lies",
        change="test message published",
        example={"door": MQTT, "name": "factory/line1/temp", "payload": "21.5", "qos": 1},
    )
    async def try_message(self, asked: Asked, body: HttpTrial | MqttTrial | AmqpTrial | RocketMqTrial) -> Tried:
        door, (message_id, routed) = await self._published(asked.principal, body)
        places = await self._places(message_id) if message_id else []
        where = f"Topic:{places[0].topic}" if places else f"door {door}"
        asked.tell(where, f"{door}, id {id_text(message_id)}")
        return Tried(door, id_text(message_id) if message_id else None, routed, places)

    async def _published(
        self, principal: Principal, trial: HttpTrial | MqttTrial | AmqpTrial | RocketMqTrial
    ) -> tuple[str, Stored]:
        if isinstance(trial, HttpTrial):
            return HTTP, await self._http.publish(principal, trial)
        if isinstance(trial, MqttTrial):
            return MQTT, await self._mqtt.publish(principal, trial)
        if isinstance(trial, AmqpTrial):
            return AMQP, await self._amqp.publish(principal, trial)
        return ROCKETMQ, await self._rocketmq.publish(principal, trial)

    async def _places(self, message_id: bytes) -> list[PlaceShown]:
        """Return the places of the message; none yet if it waits for its time."""
        try:
            found = await self._store.finder.messages_by_id(message_id)
        except EntrepotError as error:
            if error.code is not Code.UNSUPPORTED:
                raise
            return []  # the store behind cannot find messages
        return [place_shown(place) for place in sorted({place for message in found for place in places_of(message)})]
