"""Why an SDK does not do a capability, here or at RocketMQ's proxy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.conformance.rocketmq.kept import OURS, THEIRS
from tests.conformance.rocketmq.sdks.capabilities import TWO_GATEWAYS


@dataclass(frozen=True, slots=True)
class Reason:
    """Of capabilities that do not pass at these servers, by one SDK."""

    language: str
    capabilities: tuple[str, ...]
    why: str
    servers: tuple[str, ...] = (OURS, THEIRS)

    def explains(self, language: str, server: str, capability: str) -> bool:
        """True for one of its capabilities."""
        return language == self.language and server in self.servers and capability in self.capabilities


_NO_TELEMETRY: Final = (
    "The SDK opened no new Telemetry stream in the minute after its gateway had gone. A proxy that lacks its settings "
    "refuses its receives (INTERNAL_SERVER_ERROR). Our door takes all that it needs from the call."
)
_RESTARTS: Final = ("restart of the server", "restart of the server, push consumer")

REASONS: Final = (
    Reason("python", (*_RESTARTS, TWO_GATEWAYS), _NO_TELEMETRY, (THEIRS,)),
    Reason("go", (*_RESTARTS, TWO_GATEWAYS), _NO_TELEMETRY, (THEIRS,)),
    Reason(
        "node",
        ("priority",),
        "The SDK takes a message with a priority for a NORMAL one, and refuses to send it to a topic that takes "
        "PRIORITY alone. Here such a topic takes NORMAL messages, too, and the priority counts.",
        (THEIRS,),
    ),
    Reason(
        "node",
        (TWO_GATEWAYS,),
        "The SDK joins several endpoints into one name of a host, which it does not find.",
    ),
    Reason("rust", ("restart of the server", TWO_GATEWAYS), _NO_TELEMETRY, (THEIRS,)),
    Reason(
        "rust",
        (
            "FIFO, push consumer",
            "recall",
            "priority",
            "lite topics",
            "push consumer",
            "change of the invisible duration",
            "restart of the server, push consumer",
        ),
        "The crate has a producer and a simple consumer that receives and acknowledges.",
    ),
)
