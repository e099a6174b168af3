"""Policies: list, show, replace, delete, and evaluate.  For super users only."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import Query, Request, Response
from pydantic import Field

from entrepot.domain.access.evaluator import MAX_RESOURCES, MAX_SOURCES, MAX_STATEMENTS
from entrepot.domain.access.model import SUBJECT_PREFIX, Action, Decision, Effect, ResourceType, Statement
from entrepot.gateway.http.admin.common import CREATED, NO_CONTENT, OK, PREFIX, Body, schema_of
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import body_of, json_answer, schema_of_body
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.problems import MissingError, bad_request
from entrepot.gateway.http.rights import SUPER_USERS
from entrepot.gateway.http.routes import Router, Routes
from entrepot.gateway.security.administration import By
from entrepot.gateway.security.records import PolicyRecord

MAX_LIMIT: Final = 1000


class StatementBody(Body):
    """A statement of a policy."""

    effect: Effect
    actions: Annotated[list[Action], Field(min_length=1, max_length=len(Action))]
    resources: Annotated[list[str], Field(min_length=1, max_length=MAX_RESOURCES)]
    sources: Annotated[list[str], Field(default_factory=list, max_length=MAX_SOURCES)]

    def statement(self) -> Statement:
        """Convert it for the policy evaluator."""
        return Statement(self.effect, tuple(self.actions), tuple(self.resources), tuple(self.sources))


class PolicyBody(Body):
    """All statements about a subject."""

    statements: Annotated[list[StatementBody], Field(max_length=MAX_STATEMENTS)]


_BODY: Final = schema_of_body(schema_of(PolicyBody))


def acl_routes(context: HttpContext) -> Routes:
    """The routes of policies, which are in no namespace."""
    routes = Routes(["acls"], PREFIX)
    _add_explain(routes.plain, context)
    _add(routes.plain, context)
    return routes


def _add(router: Router, context: HttpContext) -> None:
    administration = context.security.administration

    @router.get("/acls", SUPER_USERS, summary="List policies by subject")
    async def list_policies(
        after: str = Query("", description="Subject after which the list begins"),
        limit: int = Query(100, ge=1, le=MAX_LIMIT),
    ) -> Response:
        found = [policy for policy in administration.policies() if policy.subject > after]
        following = found[limit - 1].subject if len(found) > limit else None
        return json_answer({"value": [_shape(policy) for policy in found[:limit]], "next": following})

    @router.get("/acls/{subject}", SUPER_USERS, summary="Get the policy of a subject")
    async def get_policy(subject: str) -> Response:
        subject = _subject(subject)
        policy = administration.policy(subject)
        if policy is None:
            raise _missing(subject)
        return json_answer(_shape(policy))

    @router.put(
        "/acls/{subject}",
        SUPER_USERS,
        summary="Replace the policy of a subject",
        openapi_extra=_BODY,
    )
    async def put_policy(request: Request, subject: str) -> Response:
        body = await body_of(request, context, PolicyBody)
        by = By.principal(request.state.principal)
        statements = [each.statement() for each in body.statements]
        policy, is_new = await administration.put_policy(by, _subject(subject), statements)
        return json_answer(_shape(policy), CREATED if is_new else OK)

    @router.delete("/acls/{subject}", SUPER_USERS, summary="Delete the policy of a subject", status_code=NO_CONTENT)
    async def delete_policy(request: Request, subject: str) -> Response:
        subject = _subject(subject)
        if not await administration.delete_policy(By.principal(request.state.principal), subject):
            raise _missing(subject)
        return Response(status_code=NO_CONTENT)


def _add_explain(router: Router, context: HttpContext) -> None:
    @router.get("/acls:explain", SUPER_USERS, summary="Explain the decision on an action, with the statement behind it")
    async def explain(
        subject: str = Query(min_length=1),
        action: Literal["PUB", "SUB", "CREATE", "UPDATE", "DELETE", "GET", "LIST"] = Query(),
        resource: str = Query(min_length=1, description="Resource type and name, such as Topic:factory/line1/temp"),
        source: str = Query("", description="Address of the client"),
        client_id: str = Query("", alias="clientId"),
    ) -> Response:
        resource_type, name = _resource(resource)
        subject = subject.removeprefix(SUBJECT_PREFIX)
        decision = context.security.explain(subject, Action(action), resource_type, name, source, client_id)
        return json_answer(_decision_shape(decision))


def _subject(parameter: str) -> str:
    return name_in_path(parameter).removeprefix(SUBJECT_PREFIX)


def _resource(text: str) -> tuple[ResourceType, str]:
    type_text, colon, name = text.partition(":")
    for resource_type in ResourceType:
        if colon and name and type_text.lower() == resource_type.lower():
            return resource_type, name
    raise bad_request(f"resource: write one of {', '.join(ResourceType)}, a colon and a name, not {text[:80]!r}")


def _missing(subject: str) -> MissingError:
    return MissingError("policy-not-found", "The policy does not exist", f"nothing is said of {subject[:80]!r}")


def _shape(policy: PolicyRecord) -> dict[str, Any]:
    return {
        "subject": f"{SUBJECT_PREFIX}{policy.subject}",
        "statements": [_statement_shape(each.statement()) for each in policy.statements],
    }


def _statement_shape(statement: Statement) -> dict[str, Any]:
    return {
        "effect": statement.effect,
        "actions": list(statement.actions),
        "resources": list(statement.resources),
        "sources": list(statement.sources),
    }


def _decision_shape(decision: Decision) -> dict[str, Any]:
    return {
        "decision": Effect.ALLOW if decision.is_allowed else Effect.DENY,
        "reason": decision.reason,
        "subject": None if decision.subject is None else f"{SUBJECT_PREFIX}{decision.subject}",
        "statement": None if decision.statement is None else _statement_shape(decision.statement),
    }
