"""A batch for several brokers: nobody is told anything before what it is about is known."""

from __future__ import annotations

from typing import Any, cast

from entrepot.broker.remoting.link import ConnectionLostError
from entrepot.domain.broker_of_queue import QUEUES_PER_BROKER
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.protocols.wire.values import encode
from entrepot.store_client.remote.appending import Appending
from entrepot.store_client.remote.cluster import Cluster


class Broker:
    """Answers when it is told to, or is away."""

    def __init__(self, *, is_away: bool) -> None:
        self.is_away = is_away
        self.number, self.known = 0, None
        self.is_ready = not is_away
        self.answers: list[Any] = []

    def check_ready(self) -> None:
        if self.is_away:
            raise ConnectionLostError("it is away")

    def send(self, operation: object, payload: bytes, on_answer: Any) -> None:
        self.answers.append(on_answer)


class Brokers:
    def __init__(self, *brokers: Broker) -> None:
        self._brokers = brokers
        self.ready_watchers: list[object] = []
        self.confirmed_here: set[str] = set()

    def of_number(self, number: int) -> Broker:
        return self._brokers[number]

    def took(self, broker: Broker, seconds: float) -> None: ...

    def failed(self, broker: Broker) -> None: ...


async def test_what_one_broker_has_is_not_confirmed_because_another_is_away() -> None:
    for away in range(2):
        brokers = [Broker(is_away=number == away) for number in range(2)]
        appending = Appending(cast("Cluster", Brokers(*brokers)))
        batch = [Message("t", str(number).encode(), queue_id=number * QUEUES_PER_BROKER) for number in range(2)]
        confirmation = appending.append(batch)
        told: list[EntrepotError | None] = []
        confirmation.when_settled(told.append, 0, 2)
        assert not confirmation.settled and told == []
        brokers[1 - away].answers[0](None, encode(None))
        assert told == [None]
        assert confirmation.refusals is not None
        assert [refusal and refusal.code for refusal in confirmation.refusals] == [
            Code.UNAVAILABLE if number == away else None for number in range(2)
        ]
