"""What a server is asked for that it must refuse, or must not: a function each, whose name is in the register.

The golden answers, which are RabbitMQ's, stand in `golden.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pamqp.commands import Basic, Confirm, Exchange, Queue

from tests.conformance.amqp.wire_client import Said, Wire, publishing

CASES: dict[str, Callable[[Wire], Said]] = {}
"""By name.  Each is given a connection on which nothing has been said."""


def case(name: str) -> Callable[[Callable[[Wire], Said]], Callable[[Wire], Said]]:
    def register(play: Callable[[Wire], Said]) -> Callable[[Wire], Said]:
        assert name not in CASES, name
        CASES[name] = play
        return play

    return register


def refused(name: str, *frames: Callable[[Wire], Any], setup: Callable[[Wire], None] | None = None) -> None:
    """Registers: on an open channel, after what `setup` does, these frames are sent."""

    def play(wire: Wire) -> Said:
        wire.opened()
        if setup is not None:
            setup(wire)
        sent: list[Any] = []
        for make in frames:
            made = make(wire)
            sent += made if isinstance(made, list) else [made]
        return wire.said(*sent)

    case(name)(play)


def queue(**how: Any) -> Callable[[Wire], None]:
    """Declares the queue q."""

    def declare(wire: Wire) -> None:
        wire.ask(Queue.Declare(queue=wire.name("q"), **how))

    return declare


def exchange(**how: Any) -> Callable[[Wire], None]:
    """Declares the exchange e."""

    def declare(wire: Wire) -> None:
        wire.ask(Exchange.Declare(exchange=wire.name("e"), **how))

    return declare


def both(*setups: Callable[[Wire], None]) -> Callable[[Wire], None]:
    def run(wire: Wire) -> None:
        for setup in setups:
            setup(wire)

    return run


def arguments(**given: Any) -> dict[str, Any]:
    """The arguments of a declare: `message_ttl` is x-message-ttl."""
    return {"arguments": {"x-" + key.replace("_", "-"): value for key, value in given.items()}}


def filled(wire: Wire) -> None:
    """Declares the queue q, and puts a message into it."""
    wire.ask(Queue.Declare(queue=wire.name("q")))
    wire.ask(Confirm.Select())
    wire.send(*publishing("", wire.name("q")))
    wire.until(lambda channel, found: isinstance(found, Basic.Ack))
