"""A gateway of a simulated group: what sends messages to brokers is the product's own (`store_client.remote`).

It learns who is master by asking the replicas, as they are reached.  Its connections are those of one mastership: what
is on its way over one is taken by that mastership, or by none.
"""

from __future__ import annotations

from asyncio import events
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, cast

from entrepot.broker.remoting.link import ConnectionLostError
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.route import mastership_order
from entrepot.protocols.wire import operations as wire
from entrepot.protocols.wire.message_batch import decode_messages
from entrepot.protocols.wire.values import encode
from entrepot.store_client.remote.cluster import Cluster
from tests.replication.simulated_broker import Answer
from tests.replication.simulated_replica import SimulatedReplica
from tests.simulation.event_loop import EventLoop

if TYPE_CHECKING:
    from tests.controller.simulated_controllers import ControlledGroup

UNITS: Final = 40.0
"""Time of the simulation that is a second to the gateway."""
REQUEST: Final = 400.0
SILENCE: Final = 150.0
ASK_MEAN: Final = 15.0
TOPIC: Final = "t"


class SimulatedConnection:
    """To a mastership, in the place of `BrokerClient`.  `order`: of it, `life`: of the replica's process."""

    number = 0

    def __init__(self, gateway: SimulatedGateway, replica: SimulatedReplica, order: int) -> None:
        self.gateway, self.replica, self.life, self.order = gateway, replica, replica.life, order
        self.loop = gateway.loop
        self.known = SimpleNamespace(epoch=order, replicas=((1, "a:1"), (2, "b:1")))
        self.is_ready = True
        self.heard_at = gateway.group.clock.now
        self._under_way: dict[int, Any] = {}

    def check_ready(self) -> None:
        if not self.is_ready:
            raise ConnectionLostError("the broker is away")

    def send(self, operation: wire.Operation, payload: bytes, on_answer: Any) -> None:
        number = self.gateway.next_number()
        self._under_way[number] = on_answer
        group = self.gateway.group
        numbers = [int(message.body) for message in decode_messages(payload)]
        group.network.send_once(self.gateway, self.replica, self._arrive, operation, numbers, number)
        group.clock.after(REQUEST, self._lost, number)

    def _lost(self, number: int) -> None:
        on_answer = self._under_way.pop(number, None)
        if on_answer is not None and self.gateway.connection_is_of_life(self):
            on_answer(EntrepotError(Code.OUTCOME_UNKNOWN, "the answer was lost"), b"")

    def end(self) -> None:
        """What was under way has no answer."""
        self.is_ready = False
        for number in [*self._under_way]:
            self._lost(number)

    # -- at the broker -------------------------------------------------------------------------------------------

    def _arrive(self, operation: wire.Operation, numbers: list[int], number: int) -> None:
        replica = self.replica
        if order_of(replica) != self.order:  # its connections have ended with its mastership
            return
        answer = partial(self._answer, numbers, number)
        if operation is wire.APPEND_MISSING:
            replica.broker.publish_missing(numbers, answer)
        else:
            replica.broker.publish_all(numbers, answer)

    def _answer(self, numbers: list[int], number: int, answers: list[Answer]) -> None:
        group = self.gateway.group
        for each, answer in zip(numbers, answers, strict=True):
            group.ledger.check(answer, self.replica, each)
        group.network.send_once(self.replica, self.gateway, self._come, number, answers)

    # -- at the gateway ------------------------------------------------------------------------------------------

    def _come(self, number: int, answers: list[Answer]) -> None:
        on_answer = self._under_way.pop(number, None)
        if on_answer is None or not self.gateway.connection_is_of_life(self):
            return
        if any(answer.kind == "unknown" for answer in answers):
            on_answer(EntrepotError(Code.OUTCOME_UNKNOWN, "the store has failed"), b"")
        else:
            refusal = EntrepotError(Code.UNAVAILABLE, "too few are in sync")
            on_answer(None, encode([refusal if answer.kind == "refused" else None for answer in answers]))


def order_of(replica: SimulatedReplica) -> int:
    """Of the mastership of a replica that is open; 0 where it is not."""
    if replica.machine is None or not replica.broker.is_open:
        return 0
    return mastership_order(replica.machine.epoch, replica.machine.state.run)


class SimulatedGateway:
    """`told`: how often producers were told that a message was taken, refused, or is in doubt."""

    def __init__(self, group: ControlledGroup, slot: int) -> None:
        self.group, self.slot = group, slot
        self._chance = group.clock.chance(f"gateway {slot}")
        self._numbers = 0
        self.told = {"taken": 0, "refused": 0, "unknown": 0}
        self.deaths = 0
        self._begin()
        self._ask_later()

    def _begin(self) -> None:
        """A new process."""
        self.loop = EventLoop(self.group.clock, UNITS)
        self.current: SimulatedConnection | None = None
        self.ready_watchers: list[Callable[[Any, bool], None]] = []
        self.confirmed_here: frozenset[str] = frozenset()
        events._set_running_loop(cast("Any", self.loop))
        try:
            self._appending = self.group.planted_in_controllers.appending(cast("Cluster", self))
        finally:
            events._set_running_loop(None)

    def die(self) -> None:
        """Its producers hear nothing of what was under way."""
        self.deaths += 1
        self.loop.is_dead = True
        self._begin()

    def take(self, act: Callable[..., Any], *arguments: Any) -> None:
        act(*arguments)

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def connection_is_of_life(self, connection: SimulatedConnection) -> bool:
        return connection.loop is self.loop

    # -- as the cluster that appending knows -----------------------------------------------------------------------

    def of_number(self, number: int) -> SimulatedConnection | None:
        return self.current

    def took(self, client: SimulatedConnection, seconds: float) -> None:
        """Nothing is avoided."""

    def failed(self, client: SimulatedConnection) -> None:
        """Nothing is avoided."""

    # -- who is master -------------------------------------------------------------------------------------------

    def _ask_later(self) -> None:
        self.group.clock.after(self._chance.expovariate(1 / ASK_MEAN), self._ask)

    def _ask(self) -> None:
        self._ask_later()
        current = self.current
        if current is not None and self.group.clock.now - current.heard_at > SILENCE:
            self._lose(current)
        for replica in self.group.processes.values():
            self.group.network.send_once(self, replica, self._asked, self.loop, replica)

    def _asked(self, loop: EventLoop, replica: SimulatedReplica) -> None:
        order = order_of(replica)
        self.group.network.send_once(replica, self, self._heard, loop, replica, replica.life, order)

    def _heard(self, loop: EventLoop, replica: SimulatedReplica, life: int, order: int) -> None:
        current = self.current
        if loop is not self.loop or replica.disk.is_old_copy:
            return
        if current is not None and current.replica is replica and (current.life, current.order) == (life, order):
            current.heard_at = self.group.clock.now
            if not current.is_ready:
                self._meet(SimulatedConnection(self, replica, order))
        elif order > (0 if current is None else current.order):
            self._meet(SimulatedConnection(self, replica, order))
        elif current is not None and current.replica is replica and life >= current.life and order != current.order:
            self._lose(current)

    def _meet(self, connection: SimulatedConnection) -> None:
        """Gateways leave the earlier master before they go to the next."""
        earlier, self.current = self.current, connection
        if earlier is not None and earlier.is_ready:
            self._lose(earlier)
        for watcher in tuple(self.ready_watchers):
            watcher(connection, True)

    def _lose(self, connection: SimulatedConnection) -> None:
        connection.end()
        for watcher in tuple(self.ready_watchers):
            watcher(connection, False)

    # -- what producers ask --------------------------------------------------------------------------------------

    def publish(self, numbers: list[int], respond: Callable[[list[Answer]], Any]) -> None:
        """Each body is the message's number."""
        made = [
            Message(TOPIC, b"%d" % number, queue_id=0, message_id=b"%d" % number, born_time_ms=1) for number in numbers
        ]
        if self.current is None:  # no route to a broker
            respond([Answer("refused")] * len(made))
            return
        loop, confirmation = self.loop, self._appending.append(made)

        def settled(failure: EntrepotError | None) -> None:
            if loop is not self.loop:
                return
            refusals = confirmation.refusals or [None] * len(made)
            kinds = ["unknown" if failure else "refused" if refusal else "taken" for refusal in refusals]
            for kind in kinds:
                self.told[kind] += 1
            respond([Answer(kind) for kind in kinds])

        confirmation.when_settled(settled)
