"""ChannelOutput: one channel's way to its client: answers, confirms, deliveries, notices."""

from __future__ import annotations

from entrepot.gateway.driver import Driver
from entrepot.protocols.amqp.connection import ServerConnection
from entrepot.protocols.amqp.method_codec import AmqpMethod


class ChannelOutput:
    """`is_open`: False once the channel is closed.  `is_busy`: True while a method of the channel is being done."""

    __slots__ = ("_notices", "driver", "is_busy", "is_open", "machine", "number")

    def __init__(self, machine: ServerConnection, driver: Driver, number: int) -> None:
        self.machine, self.driver, self.number = machine, driver, number
        self.is_open = True
        self.is_busy = False
        self._notices: list[AmqpMethod] = []
        """What the server says by itself, behind the answer to what is being done: at most one for each consumer."""

    def send(self, method: AmqpMethod) -> None:
        """Answer; it goes out at the end of what is being done."""
        self.machine.send(self.number, method)

    def notify(self, method: AmqpMethod) -> None:
        """Say what no method asked for: who deletes a queue hears of that first, and then of its consumers."""
        if self.is_busy:
            self._notices.append(method)
        else:
            self.send(method)
            self.driver.flush()

    def done(self) -> None:
        """The method that was being done has ended: say what waited for that."""
        self.is_busy = False
        if self.is_open:
            for notice in self._notices:
                self.send(notice)
        self._notices.clear()
