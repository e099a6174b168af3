"""The settings of all gateways: values, defaults, origins, and the gateways that differ.  Secrets are masked.

A gateway has the settings of its own process only: a broker's that runs elsewhere are not here.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from fastapi import Query, Response

from entrepot.domain.access.model import Action
from entrepot.gateway.http.admin.common import PREFIX
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rights import cluster
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.settings import DEFAULT_ORIGIN, SettingRow, setting_rows

VIEW: Final = "settings"
MAX_TEXT: Final = 256


def setting_routes(context: HttpContext) -> Routes:
    """The route of the settings."""
    routes, peers = Routes(["settings"], PREFIX), context.peers
    rows = {row.key: row for row in setting_rows(context.settings, context.origins)}

    async def own(asked: dict[str, Any]) -> dict[str, list[Any]]:
        return {key: [row.value, row.origin] for key, row in rows.items()}

    peers.serve(VIEW, own)

    @routes.plain.get(
        "/settings",
        cluster(Action.GET),
        summary="List the settings of this gateway with their origins, and what differs at the others",
    )
    async def list_settings(
        find: str = Query("", max_length=MAX_TEXT, description="Part of the key or the description"),
        only: Literal["all", "set", "different"] = Query(
            "all", description="set: not left to the default; different: not the same at all gateways"
        ),
    ) -> Response:
        gathered = await peers.gather(VIEW)
        part = find.casefold()
        value = [
            _shape(row, _differing(row, gathered.answers))
            for row in rows.values()
            if part in row.key.casefold() or part in row.description.casefold()
        ]
        if only == "set":
            value = [each for each in value if each["isSet"]]
        elif only == "different":
            value = [each for each in value if each["different"]]
        return json_answer({"value": value, "next": None, "gateway": peers.name, "answered": gathered.shape()})

    return routes


def _differing(row: SettingRow, answers: Any) -> list[dict[str, Any]]:
    """The gateways with another value.  One of another version may not have the setting."""
    found = []
    for gateway, settings in sorted(answers.items()):
        value, origin = settings.get(row.key, (None, None))
        if value != row.value or origin is None:
            found.append({"gateway": gateway, "value": value, "origin": origin})
    return found


def _shape(row: SettingRow, different: list[dict[str, Any]]) -> dict[str, Any]:
    section, _, name = row.key.partition(".")
    return {
        "key": row.key,
        "section": section,
        "name": name,
        "value": row.value,
        "default": row.default,
        "origin": row.origin,
        "isSet": row.origin != DEFAULT_ORIGIN,
        "isSecret": row.is_secret,
        "description": row.description,
        "different": different,
    }
