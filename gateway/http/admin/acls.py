"""Policies: list, show, replace, delete.  For super users only."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import Header, Query, Request, Response
from pydantic import Field

from entrepot.domain.access.evaluator import MAX_RESOURCES, MAX_SOURCES, MAX_STATEMENTS
from entrepot.domain.access.model import SUBJECT_PREFIX, Action, Effect, Statement
from entrepot.gateway.http.admin.common import CREATED, NO_CONTENT, OK, PREFIX, Body, schema_of
from entrepot.gateway.http.asgi import name_in_path
from entrepot.gateway.http.bodies import body_of, json_answer, schema_of_body
from entrepot.gateway.http.context import HttpContext
from entrepot.gateway.http.rights import SUPER_USERS
from entrepot.gateway.http.routes import Router, Routes
from entrepot.gateway.operations.change_names import TOLD_BELOW
from entrepot.gateway.operations.problem import MissingError
from entrepot.gateway.security.administration import By
from entrepot.gateway.security.records import PolicyRecord

MAX_LIMIT: Final = 1000
MAX_TEXT: Final = 1024


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
    _add(routes.plain, context)
    return routes


def _add(router: Router, context: HttpContext) -> None:
    administration = context.security.administration

    @router.get("/acls", SUPER_USERS, summary="List policies by subject")
    async def list_policies(
        after: str = Query("", description="Subject after which the list begins"),
        find: str = Query("", max_length=MAX_TEXT, description="Part of the subject's name"),
        limit: int = Query(100, ge=1, le=MAX_LIMIT),
    ) -> Response:
        part = find.casefold()
        found = [each for each in administration.policies() if each.subject > after and part in each.subject.casefold()]
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
        change=TOLD_BELOW,
        summary="Replace the policy of a subject",
        openapi_extra=_BODY,
    )
    async def put_policy(
        request: Request,
        subject: str,
        if_none_match: Literal["*"] | None = Header(None, description="`*`: an existing policy is not replaced"),
    ) -> Response:
        body = await body_of(request, context, PolicyBody)
        by = By.principal(request.state.principal)
        statements = [each.statement() for each in body.statements]
        only_new = if_none_match is not None
        policy, is_new = await administration.put_policy(by, _subject(subject), statements, only_new=only_new)
        return json_answer(_shape(policy), CREATED if is_new else OK)

    @router.delete(
        "/acls/{subject}",
        SUPER_USERS,
        change=TOLD_BELOW,
        summary="Delete the policy of a subject",
        status_code=NO_CONTENT,
    )
    async def delete_policy(request: Request, subject: str) -> Response:
        subject = _subject(subject)
        if not await administration.delete_policy(By.principal(request.state.principal), subject):
            raise _missing(subject)
        return Response(status_code=NO_CONTENT)


def _subject(parameter: str) -> str:
    return name_in_path(parameter).removeprefix(SUBJECT_PREFIX)


def _missing(subject: str) -> MissingError:
    return MissingError("policy-not-found", "The policy does not exist", f"nothing is said of {subject[:80]!r}")


def _shape(policy: PolicyRecord) -> dict[str, Any]:
    return {
        "subject": f"{SUBJECT_PREFIX}{policy.subject}",
        "statements": [statement_shape(each.statement()) for each in policy.statements],
    }


def statement_shape(statement: Statement) -> dict[str, Any]:
    """Return a statement as JSON."""
    return {
        "effect": statement.effect,
        "actions": list(statement.actions),
        "resources": list(statement.resources),
        "sources": list(statement.sources),
    }
