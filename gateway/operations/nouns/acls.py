"""Policies: list, show, replace, delete.  For super users only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from entrepot.domain.access.evaluator import MAX_RESOURCES, MAX_SOURCES, MAX_STATEMENTS
from entrepot.domain.access.model import SUBJECT_PREFIX, Action, Effect, Statement
from entrepot.gateway.operations.row.asked import Asked
from entrepot.gateway.operations.row.change_names import TOLD_BELOW
from entrepot.gateway.operations.row.operation import Noun, Table, Words
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.rights import SUPER_USERS
from entrepot.gateway.operations.row.shapes import Body, Continued, Head, Made, Part, PlainName, Query, Shown, shown_as
from entrepot.gateway.security.changes import By

if TYPE_CHECKING:
    from entrepot.gateway.security.administration import Administration
    from entrepot.gateway.security.records import PolicyRecord

MAX_LIMIT: Final = 1000
MAX_TEXT: Final = 1024


class Said(Part, frozen=True):
    """A statement, as part of what is shown."""

    effect: Effect
    actions: list[Action]
    resources: list[str]
    sources: list[str]


class StatementShown(Said, Shown, frozen=True):
    """A statement of a policy"""


class AccessPolicyShown(Shown, frozen=True):
    """All statements about a subject"""

    subject: str
    statements: list[StatementShown]


_EXAMPLE: Final = StatementShown(Effect.ALLOW, [Action.PUB], ["Topic:factory/#"], ["192.0.2.0/24"])
shown_as(AccessPolicyShown("User:bob", [_EXAMPLE]))


class StatementBody(Body, frozen=True):
    """A statement of a policy."""

    effect: Annotated[Effect, Meta(description="Effects of a statement.")]
    actions: Annotated[
        list[Annotated[Action, Meta(description="Actions on a resource; ALL stands in statements only.")]],
        Meta(min_length=1, max_length=len(Action)),
    ]
    resources: Annotated[list[str], Meta(min_length=1, max_length=MAX_RESOURCES)]
    sources: Annotated[list[str], Meta(max_length=MAX_SOURCES)] = msgspec.field(default_factory=list)

    def statement(self) -> Statement:
        """Convert it for the policy evaluator."""
        return Statement(self.effect, tuple(self.actions), tuple(self.resources), tuple(self.sources))


class PolicyBody(Body, frozen=True):
    """All statements about a subject."""

    statements: Annotated[list[StatementBody], Meta(max_length=MAX_STATEMENTS)]


class PoliciesAsked(Query, frozen=True):
    after: Annotated[str, Meta(description="Subject after which the list begins")] = ""
    find: Annotated[str, Meta(max_length=MAX_TEXT, description="Part of the subject's name")] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = 100


class PolicyHead(Head, frozen=True, rename="kebab"):
    if_none_match: Annotated[Literal["*"] | None, Meta(description="`*`: an existing policy is not replaced")] = None


ACLS: Final = Noun(
    "acls",
    "/acls",
    "policy",
    "Policies of a running server.",
    group="acl",
    helps={"subject": "User name; * for everybody."},
)
_COLUMNS: Final = ("subject", "effect", "actions", "resources", "sources")


def _tables(*policies: dict[str, Any]) -> list[Table]:
    rows = (
        (policy["subject"], each["effect"], *(" ".join(each[key]) for key in _COLUMNS[2:]))
        for policy in policies
        for each in policy["statements"]
    )
    return [(_COLUMNS, rows)]


class Acls:
    """The operations of policies, which are in no namespace."""

    def __init__(self, administration: Administration) -> None:
        self._administration = administration

    @ACLS.get(
        "",
        "listAccessPolicies",
        "List policies by subject",
        SUPER_USERS,
        shows={"next": "bob"},
        words=Words(
            "list",
            "List every statement of every policy.",
            tables=lambda found: _tables(*found["value"]),
            whole=MAX_LIMIT,
        ),
    )
    async def listed(self, query: PoliciesAsked) -> Continued[AccessPolicyShown]:
        part = query.find.casefold()
        found = [
            each
            for each in self._administration.policies()
            if each.subject > query.after and part in each.subject.casefold()
        ]
        following = found[query.limit - 1].subject if len(found) > query.limit else None
        return Continued([_shown(policy) for policy in found[: query.limit]], following)

    @ACLS.get(
        "/{subject}",
        "getAccessPolicy",
        "Get the policy of a subject",
        SUPER_USERS,
        words=Words("show", "Show the policy of one subject.", tables=_tables),
    )
    async def show(self, subject: PlainName) -> AccessPolicyShown:
        name = _name(subject)
        policy = self._administration.policy(name)
        if policy is None:
            raise _missing(name)
        return _shown(policy)

    @ACLS.put(
        "/{subject}",
        "putAccessPolicy",
        "Replace the policy of a subject",
        SUPER_USERS,
        change=TOLD_BELOW,
        example={"statements": [{"effect": "ALLOW", "actions": ["PUB"], "resources": ["Topic:factory/#"]}]},
    )
    async def put(
        self, subject: PlainName, asked: Asked, head: PolicyHead, body: PolicyBody
    ) -> Made[AccessPolicyShown]:
        statements, only_new = [each.statement() for each in body.statements], head.if_none_match is not None
        policy, is_new = await self._administration.put_policy(
            By.principal(asked.principal), _name(subject), statements, only_new=only_new
        )
        return Made(_shown(policy), is_new)

    @ACLS.delete(
        "/{subject}",
        "deleteAccessPolicy",
        "Delete the policy of a subject",
        SUPER_USERS,
        change=TOLD_BELOW,
        words=Words(
            "delete",
            "Delete the policy of a subject. Asks for confirmation.",
            outcome="policy of {subject} deleted",
            confirm="Delete the policy of {subject}?",
        ),
    )
    async def delete(self, subject: PlainName, asked: Asked) -> None:
        name = _name(subject)
        if not await self._administration.delete_policy(By.principal(asked.principal), name):
            raise _missing(name)


def parts_of(statement: Statement) -> tuple[Effect, list[Action], list[str], list[str]]:
    """Return the fields of `Said`."""
    return statement.effect, list(statement.actions), list(statement.resources), list(statement.sources)


def _name(subject: str) -> str:
    return subject.removeprefix(SUBJECT_PREFIX)


def _missing(name: str) -> MissingError:
    return MissingError("policy-not-found", "The policy does not exist", f"nothing is said of {name[:80]!r}")


def _shown(policy: PolicyRecord) -> AccessPolicyShown:
    statements = [StatementShown(*parts_of(each.statement())) for each in policy.statements]
    return AccessPolicyShown(f"{SUBJECT_PREFIX}{policy.subject}", statements)
