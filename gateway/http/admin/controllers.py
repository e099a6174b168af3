"""Controllers: list, add, remove, replace."""

from __future__ import annotations

from typing import Any

from fastapi import Request, Response
from pydantic import Field

from entrepot.domain.access.model import Action
from entrepot.domain.cluster import ControllerStatus
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.http.admin.brokers import control_of, needed_control
from entrepot.gateway.http.admin.common import NO_CONTENT, PREFIX, Body
from entrepot.gateway.http.bodies import body_of, json_answer
from entrepot.gateway.http.changes import tell
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rights import cluster
from entrepot.gateway.http.routes import Router, Routes
from entrepot.gateway.settings.addresses import LARGEST_ID, is_address


class NewController(Body):
    """The controller to add, and the one it replaces; 0: none."""

    controller: int = Field(ge=1, le=LARGEST_ID)
    address: str = Field(max_length=300)
    replaces: int = Field(0, ge=0, le=LARGEST_ID)


def controller_routes(context: HttpContext) -> Routes:
    """The routes of controllers, which are in no namespace."""
    routes = Routes(["controllers"], PREFIX)
    _add(routes.plain, context)
    return routes


def _add(router: Router, context: HttpContext) -> None:
    @router.get("/controllers", cluster(Action.LIST), summary="List all controllers with their state")
    async def list_controllers() -> Response:
        return json_answer(await controller_list(context))

    @router.post(
        "/controllers",
        cluster(Action.UPDATE),
        change="controller added",
        summary="Add a running controller, or replace another one by it",
    )
    async def add_controller(request: Request) -> Response:
        asked = await body_of(request, context, NewController)
        if not is_address(asked.address):
            raise EntrepotError(Code.BAD_REQUEST, f"address: {asked.address!r} is not host:port")
        detail = f"at {asked.address}" + (f" in place of {asked.replaces}" if asked.replaces else "")
        tell(request, f"controller {asked.controller}", detail)
        await needed_control(context).change_controllers(asked.replaces, asked.controller, asked.address)
        return json_answer(await controller_list(context))

    @router.delete(
        "/controllers/{controller}",
        cluster(Action.DELETE),
        change="controller removed",
        summary="Remove a controller for good",
        status_code=NO_CONTENT,
    )
    async def delete_controller(controller: int) -> Response:
        await needed_control(context).change_controllers(controller, 0, "")
        return Response(status_code=NO_CONTENT)


async def controller_list(context: HttpContext) -> dict[str, Any]:
    """Return all controllers as JSON; none where the store is in this process."""
    control = control_of(context)
    return {"value": [] if control is None else [_shape(each) for each in await control.controllers()]}


def _shape(status: ControllerStatus) -> dict[str, Any]:
    return {
        "controller": status.controller or None,
        "address": status.address,
        "state": status.state,
        "problem": status.problem or None,
    }
