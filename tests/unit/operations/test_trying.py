"""Test messages as their operation takes them: without HTTP."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.topic import Topic
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.reading import read_body
from entrepot.gateway.operations.row.schema import Schemas
from entrepot.gateway.operations.trying.noun import TRYING, Trying
from entrepot.gateway.operations.trying.trial_doors import MqttDoor, RocketMqDoor
from entrepot.gateway.operations.trying.trials import AmqpTrial, HttpTrial, MqttTrial, RocketMqTrial, Stored
from tests.support.clock import ManualClock
from tests.support.gateways.asked import asked
from tests.support.stores.model_store import MemoryStore
from tests.support.stores.replaced import replaced

ID = bytes(range(16))


class Amqp:
    async def publish(self, principal: Any, trial: AmqpTrial) -> Stored:
        return (b"", False) if trial.routing_key == "nowhere" else (ID, True)


def trying(store: MemoryStore) -> Trying:
    none: Any = None
    amqp: Any = Amqp()
    return Trying(store, none, MqttDoor(None, none), amqp, RocketMqDoor(None))


@pytest.fixture
async def store() -> MemoryStore:
    made = MemoryStore(ManualClock())
    await made.topology.put_topic(Topic("jobs", queues=1))
    made.messages.append([Message("jobs", b"x", "jobs", message_id=ID, queue_id=0)])
    return made


async def test_the_answer_tells_where_it_lies(store: MemoryStore) -> None:
    request = asked()
    tried = await trying(store).try_message(request, AmqpTrial(routing_key="jobs"))
    assert msgspec.to_builtins(tried) == {
        "door": "amqp",
        "id": ID.hex().upper(),
        "routed": True,
        "places": [{"topic": "jobs", "namespace": "default", "queueId": 0, "offset": "0"}],
    }
    assert request.told == (("Topic:jobs", f"amqp, id {ID.hex().upper()}"),)


async def test_what_no_queue_has_has_no_place(store: MemoryStore) -> None:
    request = asked()
    tried = await trying(store).try_message(request, AmqpTrial(routing_key="nowhere"))
    assert (tried.id, tried.routed, tried.places) == (None, False, [])
    assert request.told == (("door amqp", "amqp, id "),)


async def test_a_store_that_cannot_find_messages_tells_no_place(store: MemoryStore) -> None:
    async def unsupported(message_id: bytes) -> Any:
        raise EntrepotError(Code.UNSUPPORTED, "it cannot")

    finder = replaced(store.finder, messages_by_id=unsupported)
    tried = await trying(replaced(store, finder=finder)).try_message(asked(), AmqpTrial(routing_key="jobs"))
    assert (tried.routed, tried.places) == (True, [])


@pytest.mark.parametrize("trial", [MqttTrial(name="a"), RocketMqTrial(topic="a", payload="")])
async def test_a_closed_door_is_told(store: MemoryStore, trial: MqttTrial | RocketMqTrial) -> None:
    with pytest.raises(MissingError):
        await trying(store).try_message(asked(), trial)


def test_a_body_is_told_apart_by_its_door() -> None:
    [operation] = TRYING.operations
    decoder = msgspec.json.Decoder(operation.body)
    assert read_body(decoder, b'{"door":"http","topic":"t","event":{}}') == HttpTrial(topic="t", event={})
    given = read_body(decoder, b'{"door":"mqtt","name":"a","userProperties":[["a","1"],["a","2"]]}')
    assert given.user_properties == [("a", "1"), ("a", "2")]
    for raw, words in ((b"{}", "door: Field required"), (b'{"door":"smtp"}', "door: Invalid value 'smtp'")):
        with pytest.raises(EntrepotError) as refused:
            read_body(decoder, raw)
        assert refused.value.message == words


def test_the_document_tells_the_field_that_tells_apart() -> None:
    [operation] = TRYING.operations
    schema = Schemas().of(operation.body)
    doors = [each["properties"]["door"]["const"] for each in schema["oneOf"]]
    assert doors == ["http", "mqtt", "amqp", "rocketmq"]
    assert schema["oneOf"][0]["required"] == ["door", "topic", "event"]
    pair = schema["oneOf"][1]["properties"]["userProperties"]["items"]
    assert pair == {"type": "array", "prefixItems": [{"type": "string"}] * 2, "minItems": 2, "maxItems": 2}
