"""`/api/v1/webhooks`: subscriptions with the state of their delivery at all gateways.

A subscription is seen by who may consume all of its topic, as in the Subscriptions API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from fastapi import Query, Request, Response

from entrepot.domain.access.model import whole_topic
from entrepot.domain.errors import EntrepotError
from entrepot.domain.names import split_name
from entrepot.gateway.events.subscriptions.definition import shape, state_of
from entrepot.gateway.events.subscriptions.record import Subscription
from entrepot.gateway.events.webhooks.backlog import unread
from entrepot.gateway.events.webhooks.deliverer import Deliverer
from entrepot.gateway.events.webhooks.handshake import is_allowed
from entrepot.gateway.events.webhooks.last_answers import KEPT_ANSWERS, SinkAnswer
from entrepot.gateway.http.access import HttpAccess
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.namespaced import asked_namespace, namespace_of
from entrepot.gateway.http.rights import PER_TOPIC
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.http.subscriptions import CONSUMING, found, may_consume
from entrepot.gateway.operations.operation import PREFIX
from entrepot.gateway.operations.statuses import group_statuses
from entrepot.gateway.operations.times import time_shape
from entrepot.gateway.peers.gathered import Gathered

VIEW: Final = "webhook-deliveries"
MAX_LIMIT: Final = 200
MAX_DELAYS: Final = 16
"""Listed delays between attempts."""
COUNTED_AT_ONCE: Final = 16
"""Subscriptions that the store is asked about at once."""


def webhook_routes(context: HttpContext, access: HttpAccess) -> Routes:
    """The two routes."""
    _serve(context)
    routes = Routes(["subscriptions"], PREFIX)

    @routes.get(
        "/webhooks",
        PER_TOPIC,
        summary="List subscriptions with their delivery at all gateways, ordered by id",
    )
    async def list_webhooks(
        request: Request,
        source: str | None = Query(None, max_length=256, description="Topic of the subscriptions"),
        state: str | None = Query(None, max_length=16, description="`active`, `unverified` or `suspended`"),
        after: str = Query("", max_length=64, description="Id after which the list begins"),
        limit: int = Query(50, ge=1, le=MAX_LIMIT),
    ) -> Response:
        namespace = asked_namespace(request)
        wanted = [
            each
            for each in context.subscriptions.all()
            if each.record.namespace == namespace
            and each.id > after
            and source in (None, split_name(each.topic)[1])
            and state in (None, state_of(each.record, context.subscriptions.state(each)))
            and may_consume(access, request, whole_topic(each.topic))
        ]
        listed = sorted(wanted, key=lambda each: each.id)
        shown = listed[:limit]
        delivered = await _deliveries(context, shown, most=1)
        more = shown[-1].id if len(listed) > limit else None
        return json_answer(
            {"value": await _rows(context, shown, delivered), "next": more, "answered": delivered.shape()}
        )

    @routes.get(
        "/webhooks/{id}", CONSUMING, summary="Get a subscription with its delivery and last answers at all gateways"
    )
    async def get_webhook(request: Request, id: str) -> Response:  # noqa: A002 - the parameter's name is the path's
        namespace_of(context.store, request)
        subscription = found(context, request)
        delivered = await _deliveries(context, [subscription], most=KEPT_ANSWERS)
        [row] = await _rows(context, [subscription], delivered)
        return json_answer({**row, "answered": delivered.shape()})

    return routes


# -- this gateway's deliveries -------------------------------------------------------------------------------------


def _serve(context: HttpContext) -> None:
    async def deliveries(asked: dict[str, Any]) -> Any:
        shown = {}
        for key in asked["keys"]:
            subscription = context.subscriptions.of_key(key)
            deliverer = None if subscription is None else context.webhooks.deliverer(subscription)
            if deliverer is not None:
                shown[key] = _delivery_shape(deliverer, asked["most"])
        return shown

    context.peers.serve(VIEW, deliveries)


def _delivery_shape(deliverer: Deliverer, most: int) -> dict[str, Any]:
    state, failures, wait = deliverer.circuit
    return {
        "requests": deliverer.in_flight,
        "circuit": {"state": state, "failures": failures, "openSeconds": round(wait, 3)},
        "retryAt": time_shape(deliverer.answers.retry_at_ms),
        "answers": [_answer_shape(each) for each, _ in zip(deliverer.answers, range(most), strict=False)],
    }


def _answer_shape(answer: SinkAnswer) -> dict[str, Any]:
    return {
        "time": time_shape(answer.at_ms),
        "status": answer.status or None,
        "fault": answer.fault or None,
        "outcome": answer.outcome,
        "durationMs": answer.duration_ms,
        "events": answer.events,
        "attempt": answer.attempt,
    }


# -- rows ------------------------------------------------------------------------------------------------------------


async def _deliveries(context: HttpContext, subscriptions: Sequence[Subscription], most: int) -> Gathered:
    return await context.peers.gather(VIEW, {"keys": [each.key for each in subscriptions], "most": most})


async def _rows(
    context: HttpContext, subscriptions: Sequence[Subscription], delivered: Gathered
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for start in range(0, len(subscriptions), COUNTED_AT_ONCE):
        some = subscriptions[start : start + COUNTED_AT_ONCE]
        rows += await asyncio.gather(*(_row(context, each, delivered) for each in some))
    return rows


async def _row(context: HttpContext, subscription: Subscription, delivered: Gathered) -> dict[str, Any]:
    record, state = subscription.record, context.subscriptions.state(subscription)
    wait_ms = context.webhooks.handshake.wait_ms(subscription)
    waiting = await _lag(context, subscription.group, subscription.feed, reads_all=True)
    dispatching = context.subscriptions.dispatch_group(subscription.topic)
    undispatched = None if dispatching is None else await _lag(context, dispatching, subscription.topic)
    return {
        **shape(subscription, state),
        "namespace": record.namespace,
        "topic": split_name(record.topic)[1],
        "handshake": {
            "tries": state.tries,
            "askedAt": time_shape(state.asked_ms),
            "nextAt": None if wait_ms is None else time_shape(context.clock.now_ms() + wait_ms),
        },
        "quietUntil": time_shape(state.quiet_until_ms),
        "waiting": None if waiting is None else waiting[0],
        "waitingLimit": None if is_allowed(subscription, state) else context.settings.webhooks.max_waiting_events,
        "inFlight": None if waiting is None else waiting[1],
        "undispatched": None if undispatched is None else undispatched[0],
        "retryDelaysSeconds": [
            min(record.initial_backoff_ms << attempt, record.max_backoff_ms) / 1000
            for attempt in range(min(record.max_attempts - 1, MAX_DELAYS))
        ],
        "deliveries": [
            {"gateway": name, **answer[subscription.key]}
            for name, answer in sorted(delivered.answers.items())
            if subscription.key in answer
        ],
    }


async def _lag(context: HttpContext, group: str, topic: str, *, reads_all: bool = False) -> tuple[int, int] | None:
    """Messages of a topic that a group has not settled, and those of them in flight; None where it is not known.
    `reads_all`: what the group has not begun to read counts as well."""
    answers = await group_statuses(context.store, [group])
    if group in answers.partial or answers.missing:
        return None
    status = answers.statuses.get(group)
    progress = [] if status is None else [each for each in status.progress if each.topic == topic]
    if reads_all:
        try:
            progress += await unread(context.store, topic, progress)
        except EntrepotError:
            return None
    return sum(each.lag for each in progress), sum(each.in_flight for each in progress)
