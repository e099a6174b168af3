"""ServedStore: a store's operations, beyond its ports, for clients on other machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from entrepot.domain.confirmation import Confirmation
from entrepot.domain.errors import EntrepotError
from entrepot.domain.message import Message
from entrepot.domain.ports import Consumption, MessageReader, Messages, Store, Topology
from entrepot.protocols.wire.served import RecordReader


class ReadMessages(MessageReader, RecordReader, Protocol):
    """Reads of messages, of a store or of a slave's."""


class ServedMessages(ReadMessages, Messages, Protocol):
    """Messages sent as they lie in the log."""


class ServedConsumption(Consumption, Protocol):
    """Consumption that reports when a pop may find something.  Settlements get receipts as they are on the wire
    (`protocols.wire.forms.RECEIPTS`): places stand for each delivery that they name."""

    def watch_available(self, topic: str, group: str, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when a pop may find something; returns the function that stops it."""


class ServedTopology(Topology, Protocol):
    """Topology that reports changes of groups, too."""

    def watch_groups(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Call back with the name of a new, changed or removed group, or "" for a namespace; returns the function that
        stops it."""


class MissingMessages(Protocol):
    """Messages whose append was not answered."""

    def append(self, messages: Sequence[Message], refusal: EntrepotError | None = None) -> Confirmation:
        """Append the messages that are not stored; `refusal`: the reason to take no message at present."""


class ServedStore(Store, Protocol):
    """A store that can be served to clients."""

    @property
    def missing(self) -> MissingMessages: ...

    @property
    def messages(self) -> ServedMessages: ...

    @property
    def consumption(self) -> ServedConsumption: ...

    @property
    def topology(self) -> ServedTopology: ...
