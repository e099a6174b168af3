"""A tail goes on at the next master, also where the stream of the one before has not ended yet."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from entrepot.broker.remoting.link import ConnectionLostError
from entrepot.domain.errors import EntrepotError
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire.message_batch import encode_stored
from entrepot.protocols.wire.values import encode
from entrepot.store_client.remote.broker_client import BrokerClient
from entrepot.store_client.remote.tails import RemoteTail, Tails


class Client:
    """A master at some address, which keeps the streams that it was asked for."""

    def __init__(self) -> None:
        self.is_ready, self.has_other_store = True, False
        self.view = SimpleNamespace(deleted={})
        self.link, self.number = self, 0
        self.asked: list[bytes] = []
        self.is_closed = False

    def open_stream(
        self,
        operation: wire.Operation,
        payload: bytes,
        on_item: Callable[[bytes], None],
        on_end: Callable[[EntrepotError], None],
    ) -> Any:
        self.asked.append(payload)
        self.on_item, self.on_end = on_item, on_end
        return self

    def close(self) -> None:
        self.is_closed = True


async def test_it_goes_on_though_the_stream_before_has_not_ended() -> None:
    before, behind = Client(), Client()
    tails = cast("Tails", SimpleNamespace(forget=lambda tail: None, source_of=lambda client, topic, goes_on: client))
    tail = RemoteTail(tails, cast("BrokerClient", before), "t", 1, 0, lambda messages: None, 0)
    before.on_item(encode((7, encode_stored([]))))
    before.is_ready = False
    tail.reopen(cast("BrokerClient", behind))
    assert behind.asked == [wire.TAIL.encode_arguments("t", 1, 7)]
    assert before.is_closed, "nothing is called back any more"
    behind.on_end(ConnectionLostError("it says goodbye"))
    tail.reopen(cast("BrokerClient", behind))
    assert len(behind.asked) == 2
