"""Sent: a method of a port that is one request: its row, and the brokers that it goes to.

    acknowledge = sent(rows.ACKNOWLEDGE, owners)

The method has the signature of the Protocol's.  A request that no master took goes to the next one (`riding`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, overload

from entrepot.protocols.wire.row import Ask, Row
from entrepot.store_client.remote.cluster import Cluster
from entrepot.store_client.remote.riding import riding

P = ParamSpec("P")
R = TypeVar("R")


class RemotePort(Protocol):
    """A port over the brokers of a cluster."""

    _cluster: Cluster


To = Callable[[Any, Ask[R]], Coroutine[Any, Any, R]]
"""Sends a request of a port to those whom it concerns, and merges their answers."""


class sent(Generic[P, R]):
    """A method made of a row.  `to` gets the port and the request."""

    def __init__(self, row: Row[P, R], to: To[R]) -> None:
        self._row, self._to, self._name = row, to, row.method

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, port: None, owner: type[Any]) -> sent[P, R]: ...

    @overload
    def __get__(self, port: RemotePort, owner: type[Any]) -> Callable[P, Coroutine[Any, Any, R]]: ...

    def __get__(self, port: RemotePort | None, owner: type[Any]) -> Any:
        if port is None:
            return self
        ask, to, cluster = self._row.ask, self._to, port._cluster

        async def call(*arguments: P.args, **named: P.kwargs) -> R:
            asked = ask(*arguments, **named)
            return await riding(cluster, lambda: to(port, asked))

        port.__dict__[self._name] = call  # made once for each port
        return call
