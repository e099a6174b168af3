"""Rights of any user, and the statement behind each: the decisions of all listeners.  For super users only."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal

from fastapi import Query, Response

from entrepot.domain.access.explanation import Considered, Reach, statement_text
from entrepot.domain.access.model import (
    ANONYMOUS,
    EVERYBODY,
    SUBJECT_PREFIX,
    Action,
    Effect,
    Request,
    ResourceType,
    Statement,
)
from entrepot.gateway.http.admin.acls import statement_shape
from entrepot.gateway.http.admin.common import PREFIX
from entrepot.gateway.http.bodies import json_answer
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rights import SUPER_USERS
from entrepot.gateway.http.routes import Router, Routes
from entrepot.gateway.operations.problem import bad_request
from entrepot.gateway.security.explaining import Explanation, explain, reach_of, rights_of
from entrepot.gateway.security.security import Security

MAX_LIMIT: Final = 1000
MAX_TEXT: Final = 1024
SUBJECTS_AT_ONCE: Final = 64
"""Number of subjects judged before the event loop goes on."""
_RESOURCE: Final = "Resource type and name, such as Topic:factory/line1/temp"
ActionName = Literal["PUB", "SUB", "CREATE", "UPDATE", "DELETE", "GET", "LIST"]


def access_tester_routes(context: HttpContext) -> Routes:
    """The routes of the tester, which are in no namespace.  They stand before `/acls/{subject}`."""
    routes = Routes(["acls"], PREFIX)
    _add_explain(routes.plain, context.security)
    _add_effective(routes.plain, context.security)
    _add_who(routes.plain, context.security)
    return routes


def _add_explain(router: Router, security: Security) -> None:
    @router.get("/acls:explain", SUPER_USERS, summary="Explain the decision on an action, with the statement behind it")
    async def explain_decision(
        subject: str = Query(min_length=1, max_length=MAX_TEXT),
        action: ActionName = Query(),  # noqa: B008 - the framework's way to say that it is needed
        resource: str = Query(min_length=1, description=_RESOURCE),
        source: str = Query("", max_length=MAX_TEXT, description="Address of the client"),
        client_id: str = Query("", alias="clientId", max_length=MAX_TEXT),
    ) -> Response:
        resource_type, name = _resource(resource)
        principal = security.principal_named(subject.removeprefix(SUBJECT_PREFIX), source, client_id)
        return json_answer(
            _explanation_shape(explain(security, principal, Request(Action(action), resource_type, name)))
        )


def _add_effective(router: Router, security: Security) -> None:
    @router.get("/acls:effective", SUPER_USERS, summary="List all statements that decide about a subject, in order")
    async def list_effective(
        subject: str = Query(min_length=1, max_length=MAX_TEXT),
        source: str = Query("", max_length=MAX_TEXT, description="Address of the client"),
    ) -> Response:
        name = subject.removeprefix(SUBJECT_PREFIX)
        found = rights_of(security, security.principal_named(name, source, ""))
        user = security.administration.user(name)
        return json_answer(
            {
                "subject": SUBJECT_PREFIX + name,
                "isUser": user is not None,
                "super": user is not None and user.is_super,
                "enabled": None if user is None else user.is_enabled,
                "decision": None if found.decided is None else _effect(found.decided.is_allowed),
                "reason": None if found.decided is None else found.decided.reason,
                "value": [
                    {"subject": SUBJECT_PREFIX + of, "index": index, **_with_text(statement)}
                    for of, index, statement in found.statements
                ],
            }
        )


def _add_who(router: Router, security: Security) -> None:
    @router.get("/acls:who", SUPER_USERS, summary="List what all users and subjects of policies may do with a resource")
    async def list_who(
        resource: str = Query(min_length=1, description=_RESOURCE),
        may: Literal["anything", "all"] = Query(
            "anything", description="anything: subjects with a right or a denial; all: also those with neither"
        ),
        find: str = Query("", max_length=MAX_TEXT, description="Part of the subject's name"),
        source: str = Query("", max_length=MAX_TEXT, description="Address of the client"),
        client_id: str = Query("", alias="clientId", max_length=MAX_TEXT),
        after: str = Query("", max_length=MAX_TEXT, description="Subject after which the list begins"),
        limit: int = Query(100, ge=1, le=MAX_LIMIT),
    ) -> Response:
        resource_type, name = _resource(resource)
        wanted = [each for each in _subjects(security) if each > after and find.casefold() in each.casefold()]
        found: list[dict[str, Any]] = []
        for at, subject in enumerate(wanted):
            if at % SUBJECTS_AT_ONCE == SUBJECTS_AT_ONCE - 1:
                await asyncio.sleep(0)
            principal = security.principal_named(subject, source, client_id)
            reached = reach_of(security, principal, resource_type, name)
            if may == "anything" and set(reached.values()) == {Reach.NONE}:
                continue
            user = security.administration.user(subject)
            found.append(
                {
                    "subject": SUBJECT_PREFIX + subject,
                    "super": user is not None and user.is_super,
                    "enabled": None if user is None else user.is_enabled,
                    "actions": {str(action): str(each) for action, each in reached.items()},
                }
            )
            if len(found) > limit:
                break
        following = found[limit - 1]["subject"].removeprefix(SUBJECT_PREFIX) if len(found) > limit else None
        return json_answer({"value": found[:limit], "next": following})


def _subjects(security: Security) -> list[str]:
    """All users, the subjects of policies but everybody, and anonymous clients, by name."""
    administration = security.administration
    names = {user.name for user in administration.users()} | {each.subject for each in administration.policies()}
    return sorted((names | {ANONYMOUS}) - {EVERYBODY})


def _resource(text: str) -> tuple[ResourceType, str]:
    type_text, colon, name = text.partition(":")
    for resource_type in ResourceType:
        if colon and name and type_text.lower() == resource_type.lower():
            return resource_type, name
    raise bad_request(f"resource: write one of {', '.join(ResourceType)}, a colon and a name, not {text[:80]!r}")


def _explanation_shape(found: Explanation) -> dict[str, Any]:
    decision, deciding, following = found.decision, found.deciding, found.next_deciding
    is_allowed = following is not None and following.statement.effect is Effect.ALLOW
    return {
        "decision": _effect(decision.is_allowed),
        "reason": decision.reason,
        "subject": None if decision.subject is None else SUBJECT_PREFIX + decision.subject,
        "index": None if deciding is None else deciding.index,
        "statement": None if decision.statement is None else _with_text(decision.statement),
        "otherwise": None
        if deciding is None
        else {"decision": _effect(is_allowed), **(_NOBODY if following is None else _considered_shape(following))},
        "considered": [{**_considered_shape(each), "outcome": str(each.outcome)} for each in found.considered],
    }


_NOBODY: Final[dict[str, Any]] = {"subject": None, "index": None, "statement": None}


def _considered_shape(each: Considered) -> dict[str, Any]:
    return {"subject": SUBJECT_PREFIX + each.subject, "index": each.index, "statement": _with_text(each.statement)}


def _effect(is_allowed: bool) -> Effect:
    return Effect.ALLOW if is_allowed else Effect.DENY


def _with_text(statement: Statement) -> dict[str, Any]:
    return {**statement_shape(statement), "text": statement_text(statement)}
