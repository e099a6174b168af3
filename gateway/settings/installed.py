"""Settings sections of doors that other packages bring (`gateway.door.kind`)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Final

from pydantic import Field, create_model

from entrepot.gateway.settings.amqp import AMQP_LISTENERS
from entrepot.gateway.settings.listeners import MQTT_LISTENERS
from entrepot.gateway.settings.table import Table
from entrepot.gateway.settings.tree import Settings

TAKEN: Final = frozenset((*MQTT_LISTENERS, *AMQP_LISTENERS, "events"))
"""Names of listeners, and of a door, that are not sections."""
GROUP: Final = "entrepot.doors"
"""Group of entry points: each names a DoorKind."""


@dataclass(frozen=True, slots=True)
class InstalledDoors:
    """Kinds of doors of installed packages.  `problems`: those that cannot be used, a sentence each."""

    kinds: tuple[Any, ...]
    problems: tuple[str, ...]


@cache
def installed_doors() -> InstalledDoors:
    """Return the doors of installed packages, in the order of their names."""
    kinds, problems, named = [], list[str](), set[str]()
    for entry in sorted(entry_points(group=GROUP)):
        try:
            kind = entry.load()
            if kind.name in TAKEN or kind.name in Settings.model_fields or kind.name in named:
                raise ValueError(f"{kind.name!r} is the name of another door, listener or section")
            named.add(kind.name)
        except Exception as fault:  # noqa: BLE001 - a package of others: whatever it raises is told
            problems.append(f"the door {entry.name!r} of an installed package ({entry.value}) cannot be used: {fault}")
        else:
            kinds.append(kind)
    return InstalledDoors(tuple(kinds), tuple(problems))


@cache
def whole_tree() -> type[Settings]:
    """Return the tree with the sections of installed doors."""
    sections: dict[str, type[Table]] = {kind.name: kind.settings for kind in installed_doors().kinds if kind.settings}
    if not sections:
        return Settings
    fields: Any = {name: (table, Field(default_factory=table)) for name, table in sections.items()}
    return create_model("Settings", __base__=Settings, **fields)
