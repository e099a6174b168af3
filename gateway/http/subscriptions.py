"""`/subscriptions`: the CloudEvents Subscriptions API (draft), and the receivers' consent callback.

A subscription needs the right to consume all of its topic.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Annotated, Any, Final

import orjson
from fastapi import Query, Request, Response
from pydantic import ValidationError

from entrepot.domain.access.model import EVERYTHING, Action, ResourceType, whole_topic
from entrepot.domain.access.model import Request as Need
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.events.subscriptions.definition import SubscriptionModel, record_of, shape
from entrepot.gateway.events.subscriptions.record import Subscription
from entrepot.gateway.events.webhooks.handshake import CALLBACK_PATH
from entrepot.gateway.http.access import HttpAccess
from entrepot.gateway.http.admin.common import CREATED, NO_CONTENT, OK
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import json_answer, json_body, json_response, schema_of_body
from entrepot.gateway.http.changes import tell
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.methods import is_head
from entrepot.gateway.http.namespaced import asked_namespace, namespace_of
from entrepot.gateway.http.problems import bad_json
from entrepot.gateway.http.rights import IN_THE_BODY, PER_TOPIC, Open, Veiled, shown
from entrepot.gateway.http.routes import Routes
from entrepot.gateway.operations.asked import known_namespace
from entrepot.gateway.operations.change_names import NO_CHANGE
from entrepot.gateway.operations.problem import MissingError, bad_request
from entrepot.gateway.operations.start_position import position_of
from entrepot.protocols.cloudevents import webhook

PATH: Final = "/subscriptions"
MAX_LISTED: Final = 1000
_EXAMPLE: Final = {
    "source": "factory",
    "types": ["reading"],
    "filters": [{"prefix": {"subject": "line1/"}}, {"sql": "celsius > 30"}],
    "sink": "https://receiver.example/events",
    "protocol": "HTTP",
    "protocolsettings": {"headers": {"x-api-key": "secret"}},
    "config": {"mode": "structured", "ordered": True, "maxattempts": 10},
}


def _body_schema() -> dict[str, Any]:
    schema = SubscriptionModel.model_json_schema()
    parts = schema.pop("$defs", {})

    def placed(node: Any) -> Any:
        if isinstance(node, dict):
            if "$ref" in node:
                return placed(parts[node["$ref"].rpartition("/")[2]])
            return {name: placed(value) for name, value in node.items()}
        return [placed(each) for each in node] if isinstance(node, list) else node

    made: dict[str, Any] = placed(schema)
    return {**made, "examples": [_EXAMPLE]}


def subscription_routes(context: HttpContext, access: HttpAccess) -> Routes:
    """The five routes of subscriptions."""
    routes = Routes(["subscriptions"])
    _add_changes(routes, context, access)
    _add_reads(routes, context, access)
    return routes


def _add_changes(routes: Routes, context: HttpContext, access: HttpAccess) -> None:
    store, subscriptions = context.store, context.subscriptions
    body = schema_of_body(_body_schema())

    @routes.post(
        PATH,
        IN_THE_BODY,
        summary="Create a subscription, which delivers events of a topic to a sink",
        openapi_extra=body,
    )
    async def create(request: Request) -> Response:
        namespace = asked_namespace(request)
        model = await _model_of(request, context)
        made_id = secrets.token_hex(8)
        now_ms = context.clock.now_ms()
        record = record_of(model, namespace, made_id, now_ms, context.settings.webhooks.handshake)
        _check_sink(context, record.sink, record.credential.tokenendpoint if record.credential else "")
        _check_rights(access, request, whole_topic(record.topic))
        known_namespace(store, namespace)
        if store.topology.topic(record.topic) is None:
            await context.topology.ensure(record.topic)
        made = await subscriptions.create(record, position_of(record.start))
        tell(request, f"subscription {made.id}", f"to topic {record.topic}")
        return _answer(context, made, CREATED, {"location": f"{request.url.path.rstrip('/')}/{made.id}"})

    @routes.put(PATH + "/{id}", CONSUMING, summary="Replace a subscription", openapi_extra=body)
    async def update(request: Request, id: str) -> Response:  # noqa: A002 - the name in the path
        before = found(context, request)
        model = await _model_of(request, context)
        record = record_of(
            model, before.record.namespace, before.id, context.clock.now_ms(), before.record.handshake, before.record
        )
        if record.topic != before.topic or record.start != before.record.start:
            raise bad_request("source and config.start: cannot be changed: make another subscription")
        _check_sink(context, record.sink, record.credential.tokenendpoint if record.credential else "")
        state = subscriptions.state(before)
        made = await subscriptions.update(before, record)
        await subscriptions.renew_state(made, state, is_new_sink=record.sink != before.record.sink)
        return _answer(context, made, OK)

    @routes.delete(PATH + "/{id}", CONSUMING, summary="Delete a subscription", status_code=NO_CONTENT)
    async def delete(request: Request, id: str) -> Response:  # noqa: A002
        await subscriptions.delete(found(context, request))
        return Response(status_code=NO_CONTENT)


def _add_reads(routes: Routes, context: HttpContext, access: HttpAccess) -> None:
    store, subscriptions = context.store, context.subscriptions

    @routes.get(PATH, PER_TOPIC, summary="List subscriptions to topics that the caller may consume")
    async def list_subscriptions(
        request: Request,
        source: Annotated[str | None, Query(max_length=256, description="Topic of the subscriptions")] = None,
        after: Annotated[str | None, Query(max_length=64, description="Id after which the list begins")] = None,
        limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 100,
    ) -> Response:
        namespace = asked_namespace(request)
        if may_consume(access, request, EVERYTHING):  # without this right, none is visible
            known_namespace(store, namespace)
        plain = None if source is None else source.rpartition("/")[2]

        def wanted() -> Iterator[Subscription]:
            for each in subscriptions.all():
                is_here = each.record.namespace == namespace and each.id > (after or "")
                if is_here and (plain is None or each.topic.rpartition("/")[2] == plain):
                    yield each

        may = [each for each in wanted() if may_consume(access, request, whole_topic(each.topic))]
        listed = sorted(may, key=lambda each: each.id)[:limit]
        return json_answer_list([_shape(context, each) for each in listed])

    @routes.get(PATH + "/{id}", CONSUMING, summary="Get a subscription with its state")
    async def get(request: Request, id: str) -> Response:  # noqa: A002
        return _answer(context, found(context, request), OK)


def _needs(context: HttpContext, request: Request) -> list[Need]:
    """Needs of a subscription: consuming its topic; if it does not exist, all topics, so that existence is not
    revealed."""
    known = context.subscriptions.get(asked_namespace(request), name_in_path(request.path_params["id"]))
    name = EVERYTHING if known is None else whole_topic(known.topic)
    return [Need(Action.SUB, ResourceType.TOPIC, name)]


CONSUMING: Final = Veiled(
    _needs, lambda request: f"to consume the topic of subscription {shown(request, 'id')} is not allowed"
)


def add_consent(routes: Routes, context: HttpContext) -> None:
    """Add the route for a receiver's later consent (WebHook specification 4.1.3)."""

    async def consent(request: Request, namespace: str, id: str, token: str) -> Response:  # noqa: A002
        webhooks = context.webhooks
        subscription = webhooks.handshake.of_callback(name_in_path(namespace), name_in_path(id), token)
        if subscription is None:
            raise MissingError("consent-not-found", "Nobody asked for this consent", "there is nothing to consent to")
        if is_head(request):  # a HEAD grants nothing
            return Response(status_code=NO_CONTENT)
        rate = webhook.rate_of(request.headers.get(webhook.ALLOWED_RATE))
        if rate == 0:
            raise bad_request(f"{webhook.ALLOWED_RATE}: must be a positive whole number, or *")
        await webhooks.handshake.grant(subscription, webhook.Consent(rate))
        return Response(status_code=NO_CONTENT)

    path = f"{CALLBACK_PATH}/{{namespace}}/{{id}}/{{token}}"
    for method in ("GET", "POST"):
        routes.plain.add(
            method,
            path,
            Open(None),  # the token is the right
            change=NO_CHANGE,  # the receiver's answer
            status_code=NO_CONTENT,
            operation_id=f"consent_{method.lower()}",
            summary="Consent to deliveries as their receiver",
        )(consent)


def found(context: HttpContext, request: Request) -> Subscription:
    """The path's subscription.  Raises MissingError."""
    given = name_in_path(request.path_params["id"])
    subscription = context.subscriptions.get(namespace_of(context.store, request), given)
    if subscription is None:
        raise MissingError(
            "subscription-not-found", "The subscription does not exist", f"there is no subscription {given[:80]!r}"
        )
    return subscription


async def _model_of(request: Request, context: HttpContext) -> SubscriptionModel:
    content = await json_body(request, context.settings.http.max_body_bytes)
    try:
        return SubscriptionModel.model_validate_json(content or b"{}")
    except ValidationError as error:
        raise bad_json(error) from None


def _check_sink(context: HttpContext, *urls: str) -> None:
    for where, url in zip(("sink", "sinkcredential.tokenendpoint"), urls, strict=True):
        refusal = context.webhooks.client.refusal_of(url) if url else None
        if refusal is not None:
            raise EntrepotError(Code.BAD_REQUEST, f"{where}: {refusal}")


def _check_rights(access: HttpAccess, request: Request, names: str) -> None:
    principal = request.state.principal
    access.check(principal, Action.SUB, ResourceType.TOPIC, names)


def may_consume(access: HttpAccess, request: Request, names: str) -> bool:
    """True if the caller may consume these topics."""
    try:
        _check_rights(access, request, names)
    except EntrepotError:
        return False
    return True


def _shape(context: HttpContext, subscription: Subscription) -> dict[str, Any]:
    shown = shape(subscription, context.subscriptions.state(subscription))
    deliverer = context.webhooks.deliverer(subscription)
    if deliverer is not None:  # this gateway's view
        shown["status"]["lastanswer"] = deliverer.answers.last or None
        shown["status"]["circuitopen"] = deliverer.is_open
    return shown


def _answer(
    context: HttpContext, subscription: Subscription, status: int, headers: dict[str, str] | None = None
) -> Response:
    response = json_answer(_shape(context, subscription), status)
    response.headers.update(headers or {})
    return response


def json_answer_list(value: list[dict[str, Any]]) -> Response:
    """A list in the Subscriptions API's form: a bare array."""
    return json_response(orjson.dumps(value))
