"""The mark of our messages at an MQTT 5 remote, by which they are known if they come back another way.

It names this store and the bridge. It is a user property whose name is also a CloudEvents attribute name.
"""

from __future__ import annotations

from typing import Final

from entrepot.domain.key_value import ABSENT, KeyValueChange
from entrepot.domain.message import Message, SystemProperty
from entrepot.domain.ports import KeyValues
from entrepot.gateway.key_values.compare_and_set import if_unchanged
from entrepot.protocols.mqtt.mapping import CE_PREFIX

ORIGIN_KEY: Final = "bridge-origin"
MARK: Final = "entrepotbridge"
_NAMES: Final = (MARK, CE_PREFIX + MARK)


async def store_origin(key_values: KeyValues, candidate: str) -> str:
    """Return the name of the store, the same for every gateway; set it to the candidate if it has none."""
    [kept] = await key_values.get([ORIGIN_KEY])
    if kept is None:
        await if_unchanged(key_values.write([KeyValueChange(ORIGIN_KEY, candidate.encode(), ABSENT)]))
        [kept] = await key_values.get([ORIGIN_KEY])
    return candidate if kept is None else kept.value.decode()


def mark_of(origin: str, bridge: str) -> tuple[str, str]:
    """The user property of a bridge's outgoing messages."""
    return MARK, f"{origin}/{bridge}"


def has_come_by(message: Message, bridge: str, mark: tuple[str, str]) -> bool:
    """True if a message came in by the bridge, or was carried out by it before."""
    if message.system.get(SystemProperty.BRIDGE) == bridge:
        return True
    return any(name in _NAMES and value == mark[1] for name, value in message.properties)
