"""The short way to pull delivery: a plain request to receive or to acknowledge goes to its handler at once.

A router that knows all routes, and dependencies that know all parameters, cost as much as ten events.  What is asked is
the same: the route's own rule for rights, its own handler, the same problems.  Whatever is not as plain as `_PATH` and
`_QUERY` (other parameters, names with encoded characters, values out of range) takes the long way, which can say what
is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from fastapi import Request, Response

from domain.ports import MAX_POP_MESSAGES
from gateway.http.access import HttpAccess
from gateway.http.asgi import Receive, Scope, Send
from gateway.http.context import HttpContext
from gateway.http.problems import send_what_is_wrong
from gateway.http.receive import DEFAULT_WAIT_SECONDS, SUBSCRIPTION_PATH, PullHandlers
from gateway.http.request_times import TEMPLATE
from gateway.http.rights import check_rights

_PATH: Final = re.compile(
    rb"/topics/([A-Za-z0-9_.-]{1,64})/eventsubscriptions/([A-Za-z0-9_.-]{1,64}):(receive|acknowledge)"
)
_QUERY: Final = re.compile(rb"(?:maxEvents=([0-9]{1,4}))?(?:(?:^|&)maxWaitTime=([0-9]{1,4}))?")

Work = Callable[[], Awaitable[Response]]


class ShortWay:
    """Takes requests from in front of the router, or leaves them."""

    def __init__(self, context: HttpContext, access: HttpAccess, handlers: PullHandlers) -> None:
        self._context, self._access, self._handlers = context, access, handlers
        self._longest_wait = context.settings.http.max_wait_seconds

    def work_of(self, scope: Scope, receive: Receive) -> Work | None:
        """What makes the answer; None where the request has to take the long way."""
        path = _PATH.fullmatch(scope.get("raw_path") or b"")
        if path is None or scope["method"] != "POST":
            return None
        topic, group, verb = (part.decode() for part in path.groups())
        query: bytes = scope.get("query_string") or b""
        request = Request(scope, receive)
        scope["path_params"] = {"topic": topic, "group": group}
        scope[TEMPLATE] = f"{SUBSCRIPTION_PATH}:{verb}"
        if verb == "receive":
            limits = self._limits(query)
            if limits is None:
                return None
            work = partial(self._handlers.receive, request, topic, group, *limits)
        elif not query:
            work = partial(self._handlers.acknowledge, request, topic, group)
        else:
            return None
        return partial(self._checked, request, f"{SUBSCRIPTION_PATH}:{verb}", work)

    def _limits(self, query: bytes) -> tuple[int, float] | None:
        """Events and seconds that a query asks for; None where it has to be looked at more closely."""
        said = _QUERY.fullmatch(query)
        if said is None:
            return None
        events = int(said[1] or 1)
        seconds = min(DEFAULT_WAIT_SECONDS, self._longest_wait) if said[2] is None else float(said[2])
        return (events, seconds) if 1 <= events <= MAX_POP_MESSAGES and seconds <= self._longest_wait else None

    async def _checked(self, request: Request, path: str, work: Work) -> Response:
        await check_rights(self._context, self._access, request, path)
        return await work()


async def answer_shortly(work: Work, scope: Scope, receive: Receive, send: Send) -> None:
    """Send what the work makes, or what is wrong with it."""
    try:
        response = await work()
    except Exception as error:  # noqa: BLE001 - the boundary: whatever it was, the client gets an answer
        await send_what_is_wrong(scope, send, error)
    else:
        await response(scope, receive, send)
