"""Brokers: which there are, draining them, and letting them go.  A store in this process has none of its own."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from domain.cluster import BrokerStatus, ClusterControl, Clustered
from domain.errors import Code, EntrepotError
from gateway.http.admin.common import NO_CONTENT, PREFIX, Body
from gateway.http.asgi import name_in_path
from gateway.http.bodies import body_of, json_answer
from gateway.http.context import HttpContext
from gateway.http.namespaced import Routes
from gateway.replica_shape import replica_shape


class BrokerChange(Body):
    """What may be said about a broker."""

    is_draining: bool


class Election(Body):
    """The replica of a broker that is to be master."""

    to: int = Field(0, ge=0, le=99)
    without: list[int] = Field([], max_length=99)
    is_unclean: bool = False


def broker_routes(context: HttpContext) -> Routes:
    """The routes of brokers, which are in no namespace."""
    routes = Routes(["brokers"], PREFIX)
    _add(routes.plain, context)
    return routes


def _add(router: APIRouter, context: HttpContext) -> None:
    @router.get("/brokers", summary="Every broker, and what is on it; every name server")
    async def list_brokers() -> Response:
        control = _control(context)
        brokers = [] if control is None else await control.brokers()
        name_servers = {} if control is None else control.name_servers()
        return json_answer(
            {
                "value": [_shape(each) for each in brokers],
                "nameServers": [{"address": address, "isAvailable": up} for address, up in name_servers.items()],
            }
        )

    @router.put("/brokers/{name}", summary="Let no new messages go to a broker, or let them again")
    async def put_broker(request: Request, name: str) -> Response:
        change = await body_of(request, context, BrokerChange)
        status = await _needed(context).drain(name_in_path(name), is_draining=change.is_draining)
        return json_answer(_shape(status))

    @router.post("/brokers/{name}:elect", summary="Make a replica of a broker its master")
    async def elect_master(request: Request, name: str) -> Response:
        asked = await body_of(request, context, Election)
        control = _needed(context)
        status = await control.elect(name_in_path(name), asked.to, asked.without, is_unclean=asked.is_unclean)
        return json_answer(_shape(status))

    @router.delete("/brokers/{name}", summary="Let a drained broker go for good", status_code=NO_CONTENT)
    async def delete_broker(name: str) -> Response:
        await _needed(context).leave(name_in_path(name))
        return Response(status_code=NO_CONTENT)


def _control(context: HttpContext) -> ClusterControl | None:
    return context.store.operations if isinstance(context.store, Clustered) else None


def _needed(context: HttpContext) -> ClusterControl:
    control = _control(context)
    if control is None:
        raise EntrepotError(Code.UNSUPPORTED, "the store is in this process: there are no brokers")
    return control


def _shape(status: BrokerStatus) -> dict[str, Any]:
    return {
        "name": status.name,
        "number": status.number,
        "address": status.address,
        "zone": status.zone,
        "isAvailable": status.is_available,
        "isDraining": status.is_draining,
        "keepsKeyValues": status.keeps_key_values,
        "problem": status.problem or None,
        "unsettled": status.unsettled,
        "waiting": status.waiting,
        "unread": status.unread,
        "keyValues": status.key_values,
        "rule": status.rule or None,
        "epoch": status.epoch or None,
        "replicas": [replica_shape(each) for each in status.replicas],
    }
