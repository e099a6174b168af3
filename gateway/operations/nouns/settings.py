"""The settings of all gateways: values, defaults, origins, and the gateways that differ.  Secrets are masked.

A gateway has the settings of its own process only: a broker's that runs elsewhere are not here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from msgspec import Meta

from entrepot.domain.access.model import Action
from entrepot.gateway.operations.row.gathered import AnsweredShown, answered
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.rights import cluster
from entrepot.gateway.operations.row.shapes import Part, Query, Shown, shown_as
from entrepot.gateway.settings import DEFAULT_ORIGIN

if TYPE_CHECKING:
    from entrepot.gateway.peers.peers import Peers
    from entrepot.gateway.settings import SettingRow

VIEW: Final = "settings"
MAX_TEXT: Final = 256


class OtherValue(Part, frozen=True):
    """Another gateway's value; without an origin that gateway, of another version, does not have the setting."""

    gateway: str
    value: Any
    origin: str | None


class SettingShown(Shown, frozen=True):
    """A setting of this gateway, and the gateways whose value is another one; a secret is masked"""

    key: str
    section: str
    name: str
    value: Any
    default: Any
    origin: str
    is_set: bool
    is_secret: bool
    description: str
    different: list[OtherValue]


shown_as(
    SettingShown(
        "mqtt.port",
        "mqtt",
        "port",
        1884,
        1883,
        "environment ENTREPOT__MQTT__PORT",
        True,
        False,
        "Port of MQTT over TCP",
        [OtherValue("gw-2", 1883, "default")],
    )
)


class SettingsPage(Part, frozen=True):
    value: list[SettingShown]
    next: str | None
    gateway: str
    answered: AnsweredShown


class SettingsAsked(Query, frozen=True):
    find: Annotated[str, Meta(max_length=MAX_TEXT, description="Part of the key or the description")] = ""
    only: Annotated[
        Literal["all", "set", "different"],
        Meta(description="set: not left to the default; different: not the same at all gateways"),
    ] = "all"


SETTINGS: Final = Noun("settings", "/settings", "setting")


class GatewaySettings:
    """The operation of the settings, and this gateway's answer to the others."""

    def __init__(self, rows: Iterable[SettingRow], peers: Peers) -> None:
        self._rows, self._peers = {row.key: row for row in rows}, peers
        peers.serve(VIEW, self._own)

    @SETTINGS.get(
        "",
        "listSettings",
        "List the settings of this gateway with their origins, and what differs at the others",
        cluster(Action.GET),
        shows={"next": "", "gateway": "gw-1"},
    )
    async def listed(self, query: SettingsAsked) -> SettingsPage:
        gathered = await self._peers.gather(VIEW)
        part = query.find.casefold()
        found = [
            _shown(row, _differing(row, gathered.answers))
            for row in self._rows.values()
            if part in row.key.casefold() or part in row.description.casefold()
        ]
        if query.only == "set":
            found = [each for each in found if each.is_set]
        elif query.only == "different":
            found = [each for each in found if each.different]
        return SettingsPage(found, None, self._peers.name, answered(gathered))

    async def _own(self, asked: dict[str, Any]) -> dict[str, list[Any]]:
        """Return this gateway's values and origins: what other gateways ask for, and get as JSON."""
        return {key: [row.value, row.origin] for key, row in self._rows.items()}


def _differing(row: SettingRow, answers: Mapping[str, Any]) -> list[OtherValue]:
    """Return the gateways with another value.  One of another version may not have the setting."""
    found = []
    for gateway, settings in sorted(answers.items()):
        value, origin = settings.get(row.key, (None, None))
        if value != row.value or origin is None:
            found.append(OtherValue(gateway, value, origin))
    return found


def _shown(row: SettingRow, different: list[OtherValue]) -> SettingShown:
    section, _, name = row.key.partition(".")
    return SettingShown(
        row.key,
        section,
        name,
        row.value,
        row.default,
        row.origin,
        row.origin != DEFAULT_ORIGIN,
        row.is_secret,
        row.description,
        different,
    )
