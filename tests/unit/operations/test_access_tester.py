"""Decisions as the tester's operations explain them: without HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest

from entrepot.domain.access.explanation import Outcome, Reach
from entrepot.domain.access.model import Action, Effect, Statement
from entrepot.domain.errors import EntrepotError
from entrepot.gateway.operations.nouns.access_tester import (
    AccessTester,
    EffectiveAsked,
    ExplanationAsked,
    OtherwisePart,
    ReachOfActions,
    ReachShown,
    WhoAsked,
)
from entrepot.gateway.security.changes import UserChange
from tests.support.gateways.opened_security import BY_ROOT, opened_security

PUB, SUB, ALL = (Action.PUB,), (Action.SUB,), (Action.ALL,)


@pytest.fixture
async def tester() -> AsyncIterator[AccessTester]:
    """Something is said of `bob` and of everybody; nothing of `ann`, nor of `till`, who is disabled."""
    async with opened_security() as security:
        change = security.administration
        await change.put_user(BY_ROOT, "ann", UserChange())
        await change.put_user(BY_ROOT, "till", UserChange(is_enabled=False))
        said = [
            Statement(Effect.ALLOW, PUB, ("Topic:a/#",), ("10.0.0.0/8",)),
            Statement(Effect.DENY, ALL, ("Topic:b",)),
        ]
        await change.put_policy(BY_ROOT, "bob", said)
        await change.put_policy(BY_ROOT, "*", [Statement(Effect.ALLOW, SUB, ("Topic:b",))])
        yield AccessTester(security)


async def test_a_decision_has_the_statement_behind_it(tester: AccessTester) -> None:
    denied = await tester.explain(ExplanationAsked("User:bob", "SUB", "topic:b"))
    assert (denied.decision, denied.subject, denied.index) == (Effect.DENY, "User:bob", 2)
    assert denied.statement is not None
    assert denied.statement.text == "DENY ALL on Topic:b"
    assert denied.otherwise is not None
    assert (denied.otherwise.decision, denied.otherwise.subject, denied.otherwise.index) == (Effect.ALLOW, "User:*", 1)
    assert [(each.subject, each.index, each.outcome) for each in denied.considered] == [
        ("User:bob", 1, Outcome.OTHER_ACTION),
        ("User:bob", 2, Outcome.DECIDES),
        ("User:*", 1, Outcome.HOLDS),
    ]


async def test_an_address_decides_and_nothing_else_allows(tester: AccessTester) -> None:
    asked = ExplanationAsked("bob", "PUB", "Topic:a/x", "10.1.1.1")
    allowed = await tester.explain(asked)
    assert (allowed.decision, allowed.otherwise) == (Effect.ALLOW, OtherwisePart(Effect.DENY, None, None, None))
    elsewhere = await tester.explain(msgspec.structs.replace(asked, source="192.0.2.1"))
    assert (elsewhere.decision, elsewhere.statement, elsewhere.otherwise) == (Effect.DENY, None, None)
    assert elsewhere.considered[0].outcome is Outcome.OTHER_SOURCE


async def test_statements_that_count_come_in_order(tester: AccessTester) -> None:
    told = await tester.effective(EffectiveAsked("User:bob"))
    assert (told.subject, told.is_user, told.is_super, told.is_enabled) == ("User:bob", True, False, True)
    assert (told.decision, told.reason) == (None, None)
    assert [(each.subject, each.index, each.text) for each in told.value] == [
        ("User:bob", 1, "ALLOW PUB on Topic:a/# from 10.0.0.0/8"),
        ("User:bob", 2, "DENY ALL on Topic:b"),
        ("User:*", 1, "ALLOW SUB on Topic:b"),
    ]


async def test_no_statement_counts_for_a_super_user(tester: AccessTester) -> None:
    told = await tester.effective(EffectiveAsked("root"))
    assert (told.decision, told.is_super, told.value) == (Effect.ALLOW, True, [])
    decision = await tester.explain(ExplanationAsked("root", "DELETE", "Topic:b"))
    assert (decision.decision, decision.considered, decision.otherwise) == (Effect.ALLOW, [], None)
    unknown = await tester.effective(EffectiveAsked("nobody"))
    assert (unknown.is_user, unknown.is_super, unknown.is_enabled) == (False, False, None)


async def test_who_may_what(tester: AccessTester) -> None:
    page = await tester.who(WhoAsked("Topic:b"))
    assert page.next is None
    by_subject = {each.subject: each for each in page.value}
    assert list(by_subject) == ["User:ann", "User:anonymous", "User:bob", "User:root", "User:till"]
    assert by_subject["User:ann"].actions == ReachOfActions(Reach.NONE, Reach.ALLOWED, *[Reach.NONE] * 5)
    denied = ReachOfActions(*[Reach.DENIED] * 7)
    assert by_subject["User:bob"] == ReachShown("User:bob", False, True, denied)
    assert by_subject["User:till"] == ReachShown("User:till", False, False, denied)
    assert by_subject["User:root"] == ReachShown("User:root", True, True, ReachOfActions(*[Reach.ALLOWED] * 7))


async def test_pages_of_who(tester: AccessTester) -> None:
    async def subjects(query: WhoAsked) -> tuple[list[str], str | None]:
        page = await tester.who(query)
        return [each.subject for each in page.value], page.next

    everybody = WhoAsked("Topic:a/x", may="all")
    names = ["User:ann", "User:anonymous", "User:bob", "User:root", "User:till"]
    assert await subjects(everybody) == (names, None)
    assert await subjects(WhoAsked("Topic:a/x")) == (names[1:], None)
    assert await subjects(WhoAsked("Topic:a/x", find="B")) == (["User:bob"], None)
    assert await subjects(msgspec.structs.replace(everybody, limit=4)) == (names[:4], "root")
    assert await subjects(msgspec.structs.replace(everybody, after="root", limit=1)) == (["User:till"], None)


@pytest.mark.parametrize("text", ["", "Topic", "Topic:", "Queue:a", "a/b"])
async def test_what_is_no_resource(tester: AccessTester, text: str) -> None:
    for refused in (tester.explain(ExplanationAsked("bob", "PUB", text)), tester.who(WhoAsked(text))):
        with pytest.raises(EntrepotError, match="resource: write one of Topic, Group, Cluster, Namespace, a colon"):
            await refused
