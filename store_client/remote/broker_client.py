"""BrokerClient: one broker over the wire.  It keeps the broker's definitions (`view`), asks it, and tells when it comes
and goes.  It decides nothing about other brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from entrepot.broker.remoting.link import ClientStream, ConnectionLostError, Link, LinkSettings, OnAnswer
from entrepot.domain.errors import EntrepotError
from entrepot.domain.route import BrokerInfo
from entrepot.domain.topic_shares import ReportedBroker
from entrepot.protocols.wire import operations as wire
from entrepot.store_client.remote.asking import Asking
from entrepot.store_client.remote.definitions import BrokerView

REQUEST_SECONDS: Final = 10.0
AGAIN_SECONDS: Final = 0.1
"""Pause before the definitions of a broker that refuses them are asked for again."""
log = structlog.get_logger(__name__)


class OnDefinitions(Protocol):
    """The callback for changed definitions of a broker."""

    def __call__(self, client: BrokerClient, topics: list[str], groups: list[str], /, *, is_first: bool) -> None: ...


class BrokerClient(Asking):
    """One broker.  `on_change`: called with the topics and groups that may differ, and `is_first` for the first ones
    since it came."""

    def __init__(
        self,
        address: str,
        settings: LinkSettings,
        on_change: OnDefinitions,
        on_ready: Callable[[BrokerClient, bool], None],
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        self._on_change, self._on_ready = on_change, on_ready
        self.request_seconds = request_seconds
        self.view = BrokerView()
        self.info: BrokerInfo | None = None
        self.reported: ReportedBroker | None = None
        """Name servers' word on it, used while it is away."""
        self.number = 0
        self.is_ready = False
        self.has_other_store = False
        """True if it came back with other data than it had: earlier offsets mean nothing."""
        self._is_first = True
        self._is_heard = True
        self._definitions: ClientStream | None = None
        self._again: asyncio.TimerHandle | None = None
        self.link = Link(address, settings, self._up, self._down)

    @property
    def name(self) -> str:
        if self.info is not None:
            return self.info.name
        return self.reported.broker.name if self.reported is not None else self.link.address

    @property
    def zone(self) -> str:
        return "" if self.known is None else self.known.zone

    @property
    def is_draining(self) -> bool:
        return self.known is not None and self.known.is_draining

    @property
    def known(self) -> BrokerInfo | None:
        """Its own information, or else that of name servers."""
        if self.info is None and self.reported is not None:
            return self.reported.broker
        return self.info

    def start(self) -> None:
        self.link.start()

    async def close(self) -> None:
        if self._again is not None:
            self._again.cancel()
        await self.link.close()

    def stop_hearing(self) -> None:
        """Take no word of it any more: it is being closed, and what it said may be read before that."""
        self._is_heard = False

    def register(self, reported: ReportedBroker) -> None:
        """Take a name server's word on it."""
        self.reported = reported
        if self.info is None:
            self.number = reported.broker.number

    def follow_on(self, other: BrokerClient) -> None:
        """Take over from the client of the same broker's other address, until this one tells."""
        if self.info is None:
            self.info, self.number, self.view = other.info, other.number, other.view

    # -- definitions ---------------------------------------------------------------------------------------------

    def _up(self) -> None:
        self._is_first = True
        self._open_definitions()

    def _open_definitions(self) -> None:
        operation = wire.WATCH_DEFINITIONS
        try:
            self._definitions = self.link.open_stream(
                operation, operation.encode_arguments(), self._told, self._definitions_ended
            )
        except EntrepotError as error:
            log.warning("could not follow a broker's definitions", address=self.link.address, problem=error.message)

    def _definitions_ended(self, error: EntrepotError) -> None:
        """Ask again soon: a replica that is not master tells nothing, and may be master soon."""
        self._definitions = None
        if self.link.is_up and self._again is None:
            self._again = asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._open_again)

    def _open_again(self) -> None:
        self._again = None
        if self.link.is_up and self._definitions is None:
            self._is_first = True
            self._open_definitions()

    def _told(self, payload: bytes) -> None:
        if not self._is_heard:
            return
        assert wire.WATCH_DEFINITIONS.result is not None
        told: wire.Definitions = wire.WATCH_DEFINITIONS.result.decode(payload)
        if self.info is not None and self.info.number != told.info.number:
            log.error("another broker answers", address=self.link.address, was=self.info.name, now=told.info.name)
        if self._is_first:
            self.has_other_store = self.info is not None and self.info.store_id != told.info.store_id
        self.info, self.number = told.info, told.info.number
        is_first, self._is_first = self._is_first, False
        topics, groups = self.view.apply(told, is_first=is_first)
        if not self.is_ready:
            self.is_ready = True
            self._on_ready(self, True)
        self._on_change(self, topics, groups, is_first=is_first)

    def _down(self) -> None:
        if self.is_ready:
            self.is_ready = False
            self._on_ready(self, False)

    # -- asking --------------------------------------------------------------------------------------------------

    def send(self, operation: wire.Operation, payload: bytes, on_answer: OnAnswer) -> int:
        """Send a request without waiting."""
        return self.link.send(operation, payload, self.request_seconds, on_answer)


def unavailable(what: str) -> EntrepotError:
    """Return the refusal for lack of a broker that could answer."""
    return ConnectionLostError(f"no broker is available: {what}")
