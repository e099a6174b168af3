"""What a script of the AMQP tests plays on: one server, one client, and names that nobody else uses."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from tests.support.amqp.peers.peer import Arrival, Channel, Peer, Refused


class Stage:
    """Names are made unique by a suffix, which `plain` takes away again, so that observables can be compared."""

    def __init__(self, port: int, connect: Callable[[int, Arrival], Peer]) -> None:
        self._port = port
        self._connect = connect
        self._suffix = f".{uuid4().hex[:10]}"
        self._peers: list[Peer] = []

    def connect(self, **how: Any) -> Peer:
        """One more connection."""
        peer = self._connect(self._port, replace(Arrival(), **how))
        self._peers.append(peer)
        return peer

    def channel(self, confirms: bool = False) -> Channel:
        """A channel on a connection of its own."""
        return self.connect().channel(confirms)

    def name(self, word: str) -> str:
        """A name of this stage alone."""
        return word + self._suffix

    def plain(self, found: Any) -> Any:
        """What was found, with the names as the script knows them."""
        if isinstance(found, str):
            return found.replace(self._suffix, "")
        if isinstance(found, dict):
            return {self.plain(key): self.plain(value) for key, value in found.items()}
        if isinstance(found, (list, tuple)):
            return type(found)(self.plain(each) for each in found)
        return found

    def refusal(self, work: Callable[[], Any]) -> tuple[str, int, str]:
        """Scope, code and text of the refusal that work meets."""
        try:
            work()
        except Refused as refused:
            return (refused.scope, refused.code, refused.text)
        raise AssertionError("not refused")

    def end(self) -> None:
        """Close the connections."""
        for peer in self._peers:
            with contextlib.suppress(Exception):  # it may have gone before, each client in its own way
                peer.close()


@dataclass(frozen=True)
class Case:
    """A script, what it needs of a client, and the observable that every server is held to."""

    feature: str
    play: Callable[[Stage], Any]
    observable: Any


class Cases:
    """A register of cases by the name of their feature."""

    def __init__(self) -> None:
        self.by_feature: dict[str, Case] = {}

    def case(self, feature: str, observable: Any) -> Callable[[Callable[[Stage], Any]], Callable[[Stage], Any]]:
        """Registers a script and what it must observe."""

        def register(play: Callable[[Stage], Any]) -> Callable[[Stage], Any]:
            assert feature not in self.by_feature, feature
            self.by_feature[feature] = Case(feature, play, observable)
            return play

        return register
