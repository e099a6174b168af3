"""ChannelOutput: one channel's output to its client: answers, confirms, deliveries, notices."""

from __future__ import annotations

from entrepot.gateway.transport.driver import Driver
from entrepot.protocols.amqp.connection import ServerConnection
from entrepot.protocols.amqp.method_codec import AmqpMethod


class ChannelOutput:
    """One channel's output.  `is_open`: False once closed.  `is_busy`: True while a method of the channel is
    running."""

    __slots__ = ("_notices", "driver", "is_busy", "is_open", "machine", "number")

    def __init__(self, machine: ServerConnection, driver: Driver, number: int) -> None:
        self.machine, self.driver, self.number = machine, driver, number
        self.is_open = True
        self.is_busy = False
        self._notices: list[AmqpMethod] = []
        """Unsolicited methods, sent after the answer to the running method: at most one for each consumer."""

    def send(self, method: AmqpMethod) -> None:
        """Send a method; it is flushed at the end of the running method."""
        self.machine.send(self.number, method)

    def notify(self, method: AmqpMethod) -> None:
        """Send an unsolicited method, after the running method's answer: delete-ok comes before the consumers'
        cancels."""
        if self.is_busy:
            self._notices.append(method)
        else:
            self.send(method)
            self.driver.flush()

    def done(self) -> None:
        """Note the end of the running method, and send the notices that waited for it."""
        self.is_busy = False
        if self.is_open:
            for notice in self._notices:
                self.send(notice)
        self._notices.clear()
