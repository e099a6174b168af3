"""RocketMQ clients of all gateways: list, disconnect."""

from __future__ import annotations

from fastapi import Query, Request, Response
from pydantic import Field

from entrepot.domain.access.model import Action
from entrepot.gateway.http.admin.clients import MAX_LIMIT, MAX_TEXT
from entrepot.gateway.http.admin.common import NO_CONTENT, PREFIX, Body, schema_of
from entrepot.gateway.http.admin.local_views.rocketmq_clients import CLIENTS, DISCONNECT, serve_rocketmq_clients
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import body_of, json_answer, schema_of_body
from entrepot.gateway.http.changes import tell_each
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.everywhere import AFTER, GATEWAY, check_complete, merged_page_by_key
from entrepot.gateway.http.rights import cluster
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.operations.problem import MissingError
from entrepot.gateway.peers.gathered import Gathered


class Disconnecting(Body):
    """RocketMQ clients to disconnect."""

    ids: list[str] = Field(min_length=1, max_length=MAX_LIMIT)


def rocketmq_routes(context: HttpContext) -> Routes:
    """The routes of RocketMQ clients."""
    serve_rocketmq_clients(context)
    routes = Routes(["clients"], PREFIX)

    @routes.plain.get(
        "/rocketmq/clients", cluster(Action.LIST), summary="List RocketMQ clients of all gateways, ordered by id"
    )
    async def list_clients(
        contains: str = Query("", max_length=MAX_TEXT, description="Part of the client ids"),
        group: str | None = Query(None, max_length=MAX_TEXT),
        topic: str | None = Query(None, max_length=MAX_TEXT, description="Topic that a client named in its settings"),
        kind: str | None = Query(None, max_length=MAX_TEXT, description="`producer`, `push-consumer` and so on"),
        user: str | None = Query(None, max_length=MAX_TEXT),
        gateway: str | None = GATEWAY,
        after: str = AFTER,
        limit: int = Query(100, ge=1, le=MAX_LIMIT),
    ) -> Response:
        asked = {"contains": contains, "group": group, "topic": topic, "kind": kind, "user": user}
        return await merged_page_by_key(context, CLIENTS, asked, limit=limit, after=after, gateway=gateway)

    @routes.plain.delete(
        "/rocketmq/clients/{id}",
        cluster(Action.UPDATE),
        change="client disconnected",
        summary="End a RocketMQ client's streams and release its held messages; its SDK connects again",
        status_code=NO_CONTENT,
    )
    async def delete_client(request: Request, id: str) -> Response:  # noqa: A002 - the parameter's name is the path's
        client_id = name_in_path(id)
        found = await _disconnected(context, request, [client_id])
        if not any(found.answers.values()):
            text = f"{client_id[:80]!r} is not connected"
            check_complete(found, text)
            raise MissingError("client-not-found", "The client is not connected", text)
        return Response(status_code=NO_CONTENT)

    @routes.plain.post(
        "/rocketmq/clients:disconnect",
        cluster(Action.UPDATE),
        change="client disconnected",
        summary="Do the same with several RocketMQ clients",
        openapi_extra=schema_of_body(schema_of(Disconnecting)),
    )
    async def disconnect_clients(request: Request) -> Response:
        ids = list(dict.fromkeys((await body_of(request, context, Disconnecting)).ids))
        found = await _disconnected(context, request, ids)
        gone = {each for answer in found.answers.values() for each in answer}
        outcomes = [{"id": each, "disconnected": each in gone} for each in ids]
        return json_answer({"value": outcomes, "answered": found.shape()})

    return routes


async def _disconnected(context: HttpContext, request: Request, ids: list[str]) -> Gathered:
    found = await context.peers.gather(DISCONNECT, {"ids": ids})
    gone = sorted({each for answer in found.answers.values() for each in answer})
    tell_each(request, [f"RocketMQ client {client_id}" for client_id in gone])
    return found
