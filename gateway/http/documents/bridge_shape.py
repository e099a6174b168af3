"""The shape of a bridge, as the overview and the list of bridges tell it."""

from __future__ import annotations

from typing import Final

from entrepot.gateway.bridge.status import BridgeState
from entrepot.gateway.http.documents.shapes import Choice, Maybe, named, time

BRIDGE_FIELDS: Final = {
    "name": "plant",
    "url": "mqtts://plant.example:8883",
    "version": "5.0",
    "state": Choice(tuple(each.value for each in BridgeState)),
    "since": time(),
    "owner": Maybe("gateway-1"),
    "isHere": True,
    "lastError": Maybe("refused"),
    "received": 12,
    "sent": 40,
    "refusedIn": 0,
    "refusedOut": 0,
    "ignored": 0,
    "connects": 1,
}
BRIDGE: Final = named("Bridge", "A bridge to another MQTT broker, as one gateway knows it", BRIDGE_FIELDS)
