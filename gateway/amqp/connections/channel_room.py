"""ChannelRoom: how many messages the consumers of one channel can take now."""

from __future__ import annotations

from collections.abc import Sized
from typing import Final, Protocol

from entrepot.gateway.amqp.connections.channel_output import ChannelOutput
from entrepot.gateway.amqp.connections.set_apart import SetApart
from entrepot.gateway.messaging.messages_that_fit import MessagesThatFit

NO_ACK_BATCH: Final = 200
"""Maximum number of messages in one delivery to a consumer without acknowledgements, while the socket accepts them."""


class Limited(Protocol):
    """A consumer as far as its limits go."""

    @property
    def no_ack(self) -> bool: ...

    @property
    def prefetch(self) -> int:
        """Maximum number of its unsettled messages; 0 for no limit of its own."""

    @property
    def held(self) -> int: ...


class ChannelRoom:
    """The room of one channel.  `prefetch`: the limit of each later consumer; `channel_prefetch`: of all of them
    together.  `held`: the channel's unsettled messages; `apart`: those that its transaction has settled, which take
    room until the commit; `most_held`: the server's own limit of both."""

    __slots__ = ("_apart", "_fit", "_held", "_most_held", "_out", "channel_prefetch", "gotten", "prefetch")

    def __init__(self, out: ChannelOutput, held: Sized, apart: SetApart, most_held: int) -> None:
        self._out, self._held, self._apart, self._most_held = out, held, apart, most_held
        self.prefetch = self.channel_prefetch = 0
        self.gotten = 0
        """Unsettled messages of basic.get: they take none of the channel's prefetch, as at RabbitMQ."""
        self._fit = MessagesThatFit()

    def note(self, largest: int) -> None:
        """Note the size of a message that was sent."""
        self._fit.note(largest)

    @property
    def room(self) -> int:
        """The number of messages that all consumers with acknowledgements can take."""
        room = min(self._most_held - self._unsettled, self._fitting())
        if self.channel_prefetch:
            room = min(room, self._left_of_prefetch)
        return max(room, 0)

    def credit(self, consumer: Limited) -> int:
        """The number of messages that a consumer can take.  A full channel stops those without acknowledgements, too,
        as at RabbitMQ."""
        if consumer.no_ack:
            is_full = self.channel_prefetch and self._left_of_prefetch <= 0
            return 0 if is_full else min(NO_ACK_BATCH, self._fitting())
        if consumer.prefetch:
            return max(min(self.room, consumer.prefetch - consumer.held), 0)
        return self.room

    @property
    def _left_of_prefetch(self) -> int:
        return self.channel_prefetch - (self._unsettled - self.gotten)

    @property
    def _unsettled(self) -> int:
        return len(self._held) + self._apart.count

    def _fitting(self) -> int:
        """The number of messages for which the client's socket has room."""
        driver = self._out.driver
        if driver.is_congested or not self._out.is_open or self._out.machine.is_slicing:
            return 0
        return self._fit.in_bytes(driver.write_limit - driver.unwritten)
