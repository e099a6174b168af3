"""DoorKind: a door before its libraries are loaded: its name, its settings, its listeners, and where it is.

The gateway's own doors are `DOORS`.  A package that is installed beside brings one by an entry point of the group
`entrepot.doors`, which names a DoorKind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from entrepot.gateway.settings.installed import installed_doors

if TYPE_CHECKING:
    from entrepot.gateway.door.door import Door
    from entrepot.gateway.door.parts import Parts
    from entrepot.gateway.settings import Settings
    from entrepot.gateway.settings.table import Table


@dataclass(frozen=True, slots=True)
class DoorKind:
    """A kind of door.

    `name`: its settings section, and its listener.  `where`: the module and the class of the door, which is made of the
    parts alone.  `settings`: the section of an installed door, with `enabled` and `port`.  `listeners`: names of the
    listeners that a section asks for, if there are others than that of its own name.  `is_wanted`: whether to make it;
    by default, where one of its listeners is bound.
    """

    name: str
    where: str
    settings: type[Table] | None = None
    listeners: Callable[[Any], tuple[str, ...]] | None = None
    is_wanted: Callable[[Parts], bool] | None = None

    def listener_names(self, settings: Settings) -> tuple[str, ...]:
        """Return the names of its listeners, as the settings ask for them."""
        section = getattr(settings, self.name, None)
        if self.listeners is not None:
            return self.listeners(section)
        return (self.name,) if getattr(section, "enabled", False) else ()

    def opened(self, parts: Parts) -> Door | None:
        """Make the door; None where it is not wanted.  Raises OSError for unusable certificates."""
        if self.is_wanted is None:
            is_wanted = any(name in parts.sockets for name in self.listener_names(parts.settings))
        else:
            is_wanted = self.is_wanted(parts)
        if not is_wanted:
            return None
        module, _, name = self.where.partition(":")
        made: Door = getattr(import_module(module), name)(parts)
        return made


def _always(parts: Parts) -> bool:
    return True


def _nothing(section: object) -> tuple[str, ...]:
    return ()


DOORS: Final = (
    DoorKind("events", "entrepot.gateway.events.door:EventsDoor", listeners=_nothing, is_wanted=_always),
    DoorKind(
        "mqtt",
        "entrepot.gateway.mqtt.door:MqttDoor",
        listeners=lambda mqtt: mqtt.listener_names(),
        is_wanted=_always,
    ),
    DoorKind(
        "amqp",
        "entrepot.gateway.amqp.door:AmqpDoor",
        listeners=lambda amqp: amqp.listener_names(),
        is_wanted=_always,
    ),
    DoorKind("grpc", "entrepot.gateway.rocketmq.door:RocketMqDoor"),
    DoorKind(
        "bridge",
        "entrepot.gateway.bridge.door:BridgeDoor",
        listeners=_nothing,
        is_wanted=lambda parts: bool(parts.settings.bridge.remotes),
    ),
    DoorKind(
        "rocketmq_bridge",
        "entrepot.gateway.bridge.rocketmq.door:RocketMqBridgeDoor",
        listeners=_nothing,
        is_wanted=lambda parts: bool(parts.settings.rocketmq_bridge.remotes),
    ),
)
"""The gateway's own doors but for HTTP, in the order in which they start: rules come before what publishes."""
HTTP: Final = DoorKind(
    "http",
    "entrepot.gateway.http.door:HttpDoor",
    is_wanted=lambda parts: parts.is_embedded or "http" in parts.sockets,
)
"""The last one: it shows the others."""


def door_kinds() -> Iterator[DoorKind]:
    """Yield all kinds of doors, those of installed packages too, in the order in which they start."""
    yield from DOORS
    yield from installed_doors().kinds
    yield HTTP


def listener_names(settings: Settings) -> tuple[str, ...]:
    """Return the names of the listeners for clients that the settings ask for."""
    return tuple(name for kind in door_kinds() for name in kind.listener_names(settings))
