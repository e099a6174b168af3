"""Taking in: which door, client and gateway took a message, as far as its properties tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from entrepot.domain.message import Message, SystemProperty

MAX_CLIENT: Final = 255
"""Length of a client's name in `TAKEN_IN`, in characters."""
UNNAMED: Final = "-"


@dataclass(frozen=True, slots=True)
class TakenIn:
    """The way in.  Each is empty where it is not known."""

    door: str = ""
    gateway: str = ""
    client: str = ""

    @property
    def text(self) -> str:
        """The value of the system property `TAKEN_IN`: three words, of which the last may have spaces."""
        return f"{self.door or UNNAMED} {self.gateway or UNNAMED} {self.client[:MAX_CLIENT]}"


def taken_in(message: Message) -> TakenIn:
    """Return the way in of a message: what its gateway wrote down, or else what its form tells."""
    text = message.system_text(SystemProperty.TAKEN_IN)
    if text is not None:
        door, gateway, client = [*text.split(" ", 2), "", ""][:3]
        return TakenIn("" if door == UNNAMED else door, "" if gateway == UNNAMED else gateway, client)
    client = message.system_text(SystemProperty.PUBLISHER) or message.system_text(SystemProperty.BORN_HOST) or ""
    return TakenIn(_door(message), "", client)


def _door(message: Message) -> str:
    if SystemProperty.AMQP in message.system:
        return "amqp"
    if (protocol := message.system_text(SystemProperty.PROTOCOL)) is not None:
        return protocol
    if SystemProperty.PUBLISHER in message.system or message.qos < 2:
        return "mqtt"  # no other door knows these
    return ""
