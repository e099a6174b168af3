"""Rights of any user, and the statement behind each: the decisions of all listeners.  For super users only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec
from msgspec import Meta

from entrepot.domain.access.explanation import Considered, Outcome, Reach, statement_text
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
from entrepot.gateway.operations.nouns.acls import Said, parts_of
from entrepot.gateway.operations.row.operation import Noun, Words
from entrepot.gateway.operations.row.problem import bad_request
from entrepot.gateway.operations.row.rights import SUPER_USERS
from entrepot.gateway.operations.row.shapes import Continued, Flag, Part, Query, Shown, shown_as
from entrepot.gateway.security.explaining import ASKED_ACTIONS, Explanation, explain, reach_of, rights_of

if TYPE_CHECKING:
    from entrepot.gateway.security.security import Security

MAX_LIMIT: Final = 1000
MAX_TEXT: Final = 1024
SUBJECTS_AT_ONCE: Final = 64
"""Number of subjects judged before the event loop goes on."""
_Subject = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
_Resource = Annotated[
    str,
    Meta(min_length=1, description="Resource type and name, such as Topic:factory/line1/temp"),
    Flag("Resource, such as Topic:a/b.", name="RESOURCE"),
]
_Source = Annotated[str, Meta(max_length=MAX_TEXT, description="Address of the client")]
_Text = Annotated[str, Meta(max_length=MAX_TEXT)]


class StatementWithTextShown(Said, Shown, frozen=True):
    """A statement of a policy, with the same in one line"""

    text: str


class ConsideredPart(Part, frozen=True):
    subject: str
    index: int
    statement: StatementWithTextShown
    outcome: Outcome


class OtherwisePart(Part, frozen=True):
    decision: Effect
    subject: str | None
    index: int | None
    statement: StatementWithTextShown | None


class AccessDecisionShown(Shown, frozen=True):
    """A decision, the statement behind it, the one that would decide without it, and the part of each statement"""

    decision: Effect
    reason: str
    subject: str | None
    index: int | None
    statement: StatementWithTextShown | None
    otherwise: OtherwisePart | None
    considered: list[ConsideredPart]


class EffectiveStatement(Said, frozen=True):
    subject: str
    index: int
    text: str


class EffectiveRightsShown(Shown, frozen=True):
    """All statements that decide about a subject, in order; `decision` is the one where no statement matters"""

    subject: str
    is_user: bool
    is_super: bool = msgspec.field(name="super")
    is_enabled: bool | None = msgspec.field(name="enabled")
    decision: Effect | None
    reason: str | None
    value: list[EffectiveStatement]


class ReachOfActions(Part, frozen=True, rename="upper"):
    pub: Reach
    sub: Reach
    create: Reach
    update: Reach
    delete: Reach
    get: Reach
    list: Reach


class ReachShown(Shown, frozen=True):
    """A subject's rights to a resource, by action; `some`: only with a part of it, or from some addresses"""

    subject: str
    is_super: bool = msgspec.field(name="super")
    is_enabled: bool | None = msgspec.field(name="enabled")
    actions: ReachOfActions


_SAID: Final = Statement(Effect.ALLOW, (Action.PUB,), ("Topic:factory/#",), ("192.0.2.0/24",))
_TOLD: Final = StatementWithTextShown(*parts_of(_SAID), statement_text(_SAID))
shown_as(_TOLD)
shown_as(
    AccessDecisionShown(
        Effect.ALLOW,
        "a statement allows it",
        "User:bob",
        1,
        _TOLD,
        OtherwisePart(Effect.ALLOW, "User:bob", 1, _TOLD),
        [ConsideredPart("User:bob", 1, _TOLD, Outcome.DECIDES)],
    )
)
shown_as(
    EffectiveRightsShown(
        "User:bob",
        True,
        False,
        True,
        Effect.ALLOW,
        "a super user",
        [EffectiveStatement(*parts_of(_SAID), "User:bob", 1, "ALLOW PUB on Topic:factory/#")],
    )
)
shown_as(ReachShown("User:bob", False, True, ReachOfActions(*[Reach.ALLOWED] * 7)))


class ExplanationAsked(Query, frozen=True):
    subject: _Subject
    action: Literal["PUB", "SUB", "CREATE", "UPDATE", "DELETE", "GET", "LIST"]
    resource: _Resource
    source: _Source = ""
    client_id: _Text = ""


class EffectiveAsked(Query, frozen=True):
    subject: _Subject
    source: _Source = ""


class WhoAsked(Query, frozen=True):
    resource: _Resource
    may: Annotated[
        Literal["anything", "all"],
        Meta(description="anything: subjects with a right or a denial; all: also those with neither"),
    ] = "anything"
    find: Annotated[
        str, Meta(max_length=MAX_TEXT, description="Part of the subject's name"), Flag("Part of the subject's name.")
    ] = ""
    source: _Source = ""
    client_id: _Text = ""
    after: Annotated[str, Meta(max_length=MAX_TEXT, description="Subject after which the list begins")] = ""
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = 100


ACCESS_TESTER: Final = Noun("acls", "/acls", "policy", group="acl")


class AccessTester:
    """The operations of the tester, which are in no namespace."""

    def __init__(self, security: Security) -> None:
        self._security = security

    @ACCESS_TESTER.get(
        ":explain", "explainAccess", "Explain the decision on an action, with the statement behind it", SUPER_USERS
    )
    async def explain(self, query: ExplanationAsked) -> AccessDecisionShown:
        resource_type, name = _resource(query.resource)
        subject = query.subject.removeprefix(SUBJECT_PREFIX)
        principal = self._security.principal_named(subject, query.source, query.client_id)
        return _explained(explain(self._security, principal, Request(Action(query.action), resource_type, name)))

    @ACCESS_TESTER.get(
        ":effective", "listEffectiveRights", "List all statements that decide about a subject, in order", SUPER_USERS
    )
    async def effective(self, query: EffectiveAsked) -> EffectiveRightsShown:
        name = query.subject.removeprefix(SUBJECT_PREFIX)
        found = rights_of(self._security, self._security.principal_named(name, query.source, ""))
        decided, user = found.decided, self._security.administration.user(name)
        return EffectiveRightsShown(
            SUBJECT_PREFIX + name,
            user is not None,
            user is not None and user.is_super,
            None if user is None else user.is_enabled,
            None if decided is None else _effect(decided.is_allowed),
            None if decided is None else decided.reason,
            [
                EffectiveStatement(*parts_of(statement), SUBJECT_PREFIX + of, index, statement_text(statement))
                for of, index, statement in found.statements
            ],
        )

    @ACCESS_TESTER.get(
        ":who",
        "listWhoMay",
        "List what all users and subjects of policies may do with a resource",
        SUPER_USERS,
        shows={"next": "bob"},
        words=Words(
            "who",
            "List what all users and subjects of policies may do with a resource.",
            columns=("subject", *ASKED_ACTIONS),
            cells=lambda each: (each["subject"], *(each["actions"][action] for action in ASKED_ACTIONS)),
            whole=MAX_LIMIT,
        ),
    )
    async def who(self, query: WhoAsked) -> Continued[ReachShown]:
        import asyncio  # no command pays for it

        resource_type, name = _resource(query.resource)
        part = query.find.casefold()
        wanted = [each for each in self._subjects() if each > query.after and part in each.casefold()]
        found: list[tuple[str, ReachShown]] = []
        for at, subject in enumerate(wanted):
            if at % SUBJECTS_AT_ONCE == SUBJECTS_AT_ONCE - 1:
                await asyncio.sleep(0)
            principal = self._security.principal_named(subject, query.source, query.client_id)
            reached = reach_of(self._security, principal, resource_type, name)
            if query.may == "anything" and set(reached.values()) == {Reach.NONE}:
                continue
            user = self._security.administration.user(subject)
            shown = ReachShown(
                SUBJECT_PREFIX + subject,
                user is not None and user.is_super,
                None if user is None else user.is_enabled,
                ReachOfActions(**{action.lower(): each for action, each in reached.items()}),
            )
            found.append((subject, shown))
            if len(found) > query.limit:
                break
        following = found[query.limit - 1][0] if len(found) > query.limit else None
        return Continued([shown for _, shown in found[: query.limit]], following)

    def _subjects(self) -> list[str]:
        """Return all users, the subjects of policies but everybody, and anonymous clients, by name."""
        administration = self._security.administration
        names = {user.name for user in administration.users()} | {each.subject for each in administration.policies()}
        return sorted((names | {ANONYMOUS}) - {EVERYBODY})


def _resource(text: str) -> tuple[ResourceType, str]:
    type_text, colon, name = text.partition(":")
    for resource_type in ResourceType:
        if colon and name and type_text.lower() == resource_type.lower():
            return resource_type, name
    raise bad_request(f"resource: write one of {', '.join(ResourceType)}, a colon and a name, not {text[:80]!r}")


def _explained(found: Explanation) -> AccessDecisionShown:
    decision, deciding = found.decision, found.deciding
    return AccessDecisionShown(
        _effect(decision.is_allowed),
        decision.reason,
        None if decision.subject is None else SUBJECT_PREFIX + decision.subject,
        None if deciding is None else deciding.index,
        None if decision.statement is None else _with_text(decision.statement),
        None if deciding is None else _otherwise(found.next_deciding),
        [
            ConsideredPart(SUBJECT_PREFIX + each.subject, each.index, _with_text(each.statement), each.outcome)
            for each in found.considered
        ],
    )


def _otherwise(following: Considered | None) -> OtherwisePart:
    if following is None:
        return OtherwisePart(Effect.DENY, None, None, None)
    said = following.statement
    return OtherwisePart(said.effect, SUBJECT_PREFIX + following.subject, following.index, _with_text(said))


def _effect(is_allowed: bool) -> Effect:
    return Effect.ALLOW if is_allowed else Effect.DENY


def _with_text(statement: Statement) -> StatementWithTextShown:
    return StatementWithTextShown(*parts_of(statement), statement_text(statement))
