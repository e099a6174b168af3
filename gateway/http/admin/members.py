"""Members of a group with whole queues: heartbeat, leave, list, commit offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Annotated, Any, Final, TypeVar

from fastapi import Query, Request, Response
from pydantic import Field

from entrepot.domain.allocation import AllocationStrategy
from entrepot.domain.membership import DEFAULT_LEASE_MS, MAX_LEASE_MS, MAX_MEMBER_LENGTH, MIN_LEASE_MS, Membership
from entrepot.domain.timestamp import to_rfc3339
from entrepot.domain.topic import MAX_QUEUES
from entrepot.gateway.http.admin.common import NO_CONTENT, PREFIX, Body, Offset, schema_of
from entrepot.gateway.http.asgi import ClientGoneError, name_in_path, until_gone
from entrepot.gateway.http.bodies import body_of, json_answer, schema_of_body
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.namespaced import group_name, topic_name
from entrepot.gateway.http.rights import consuming
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.messaging.membership import Assignment
from entrepot.gateway.operations.change_names import NO_CHANGE
from entrepot.gateway.operations.problem import bad_request
from entrepot.gateway.operations.shapes import MAX_NUMBER

_PATH: Final = "/groups/{name}/topics/{topic}"
_T = TypeVar("_T")


class Heartbeat(Body):
    """A member's heartbeat.  Without a strategy it takes that of the other members."""

    lease_seconds: Annotated[float, Field(ge=MIN_LEASE_MS / 1000, le=MAX_LEASE_MS / 1000, allow_inf_nan=False)] = (
        DEFAULT_LEASE_MS / 1000
    )
    strategy: AllocationStrategy | None = None


class QueueOffset(Body):
    """Offset of the next message to consume from a queue."""

    queue_id: Offset
    offset: Offset


class Commit(Body):
    """A member's progress in its queues."""

    member: Annotated[str, Field(min_length=1, max_length=MAX_MEMBER_LENGTH)]
    generation: Offset
    offsets: Annotated[list[QueueOffset], Field(min_length=1, max_length=MAX_QUEUES)]

    def by_queue(self) -> dict[int, int]:
        """Offsets by queue.  Raises BAD_REQUEST for a queue named twice."""
        offsets = {one.queue_id: one.offset for one in self.offsets}
        if len(offsets) < len(self.offsets):
            raise bad_request("offsets: names a queue twice")
        return offsets


_HEARTBEAT_BODY: Final = schema_of_body(schema_of(Heartbeat), required=False)
_COMMIT_BODY: Final = schema_of_body(schema_of(Commit))
_MEMBER: Final = consuming("topic", "name")


def member_routes(context: HttpContext) -> Routes:
    """The routes of members."""
    routes = Routes(["members"], PREFIX)
    store, memberships = context.store, context.memberships
    _add_heartbeat(routes, context)

    @routes.delete(
        f"{_PATH}/members/{{member}}",
        _MEMBER,
        change=NO_CHANGE,
        summary="Leave a group; the other members take the queues",
        status_code=NO_CONTENT,
    )
    async def leave(request: Request, name: str, topic: str, member: str) -> Response:
        group, full_topic = group_name(store, request, name), topic_name(store, request, topic)
        await memberships.leave(group, full_topic, name_in_path(member))
        return Response(status_code=NO_CONTENT)

    @routes.get(f"{_PATH}/members", _MEMBER, summary="List the members of a group on a topic, with their queues")
    async def list_members(request: Request, name: str, topic: str) -> Response:
        group, full_topic = group_name(store, request, name), topic_name(store, request, topic)
        return json_answer(_members_shape(await memberships.members(group, full_topic)))

    @routes.post(
        f"{_PATH}/offsets",
        _MEMBER,
        change=NO_CHANGE,
        summary="Commit offsets of the member's queues",
        openapi_extra=_COMMIT_BODY,
    )
    async def commit(request: Request, name: str, topic: str) -> Response:
        group, full_topic = group_name(store, request, name), topic_name(store, request, topic)
        said = await body_of(request, context, Commit)
        committed = await memberships.commit(group, full_topic, said.member, said.generation, said.by_queue())
        value = [{"queueId": queue_id, "committedOffset": offset} for queue_id, offset in committed.items()]
        return json_answer({"value": value})

    return routes


def _add_heartbeat(routes: Routes, context: HttpContext) -> None:
    store, longest = context.store, context.settings.http.max_wait_seconds

    @routes.post(
        f"{_PATH}/members/{{member}}",
        _MEMBER,
        change=NO_CHANGE,
        summary="Join a group or send a heartbeat, and get the member's queues",
        openapi_extra=_HEARTBEAT_BODY,
    )
    async def heartbeat(
        request: Request,
        name: str,
        topic: str,
        member: str,
        generation: int | None = Query(
            None, ge=0, le=MAX_NUMBER, description="Known generation; the answer waits for another one"
        ),
        wait_time: float = Query(
            0, alias="waitTime", ge=0, le=longest, allow_inf_nan=False, description="Longest wait, in seconds"
        ),
    ) -> Response:
        group, full_topic = group_name(store, request, name), topic_name(store, request, topic)
        said = await body_of(request, context, Heartbeat)
        answer = context.memberships.heartbeat(
            group,
            full_topic,
            name_in_path(member),
            lease_ms=int(said.lease_seconds * 1000),
            strategy=said.strategy,
            known_generation=generation,
            wait_seconds=wait_time,
        )
        return json_answer(_assignment_shape(await _while_connected(request, answer)))


async def _while_connected(request: Request, work: Awaitable[_T]) -> _T:
    """Return the outcome, or cancel the long poll once the client has disconnected: it must not keep a member alive."""
    working, gone = asyncio.ensure_future(work), asyncio.ensure_future(until_gone(request.receive))
    try:
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGoneError
        return working.result()
    finally:
        working.cancel()
        gone.cancel()


def _assignment_shape(assignment: Assignment) -> dict[str, Any]:
    membership = assignment.membership
    return {
        "generation": membership.generation,
        "strategy": membership.strategy,
        "queues": [
            {"queueId": queue.queue_id, "committedOffset": queue.committed_offset, "maxOffset": queue.max_offset}
            for queue in assignment.progress
        ],
        "members": [member.id for member in membership.members],
        "leaseSeconds": assignment.lease_ms / 1000,
    }


def _members_shape(membership: Membership) -> dict[str, Any]:
    queues = membership.assignment()
    return {
        "generation": membership.generation,
        "strategy": membership.strategy if membership.members else None,
        "value": [
            {
                "member": member.id,
                "queues": queues[member.id],
                "leaseSeconds": member.lease_ms / 1000,
                "expiresAt": to_rfc3339(member.expires_at_ms),
            }
            for member in membership.members
        ],
    }
