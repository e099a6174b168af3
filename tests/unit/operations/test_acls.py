"""Policies as their operations tell them: without HTTP."""

from __future__ import annotations

import pytest

from entrepot.domain.access.model import Action, Effect
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.operations.nouns.acls import (
    Acls,
    PoliciesAsked,
    PolicyBody,
    PolicyHead,
    StatementBody,
    StatementShown,
)
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.shapes import PlainName
from tests.support.gateways.opened_security import asked_by_root, opened_security

ANY, NEW = PolicyHead(), PolicyHead("*")
EMPTY = PolicyBody([])
SAID = PolicyBody([StatementBody(Effect.DENY, [Action.PUB, Action.SUB], ["Topic:a/#"], ["10.0.0.0/8"])])


async def test_they_are_listed_by_subject_in_pages() -> None:
    async with opened_security() as security:
        acls = Acls(security.administration)
        for subject in ("bob", "User:Bea", "till", "*"):
            assert (await acls.put(PlainName(subject), asked_by_root(), ANY, EMPTY)).is_new

        async def subjects(query: PoliciesAsked) -> tuple[list[str], str | None]:
            page = await acls.listed(query)
            return [each.subject for each in page.value], page.next

        assert await subjects(PoliciesAsked()) == (["User:*", "User:Bea", "User:bob", "User:till"], None)
        assert await subjects(PoliciesAsked(limit=2)) == (["User:*", "User:Bea"], "Bea")
        assert await subjects(PoliciesAsked(limit=2, after="Bea")) == (["User:bob", "User:till"], None)
        assert await subjects(PoliciesAsked(find="B")) == (["User:Bea", "User:bob"], None)


async def test_a_subject_has_one_policy_by_both_its_names() -> None:
    async with opened_security() as security:
        acls = Acls(security.administration)
        made = await acls.put(PlainName("User:bob"), asked_by_root(), NEW, SAID)
        assert made.value.statements == [
            StatementShown(Effect.DENY, [Action.PUB, Action.SUB], ["Topic:a/#"], ["10.0.0.0/8"])
        ]
        for name in ("bob", "User:bob"):
            assert await acls.show(PlainName(name)) == made.value
        with pytest.raises(EntrepotError, match="there is a policy of 'bob' already") as refused:
            await acls.put(PlainName("bob"), asked_by_root(), NEW, EMPTY)
        assert refused.value.code is Code.PRECONDITION_FAILED
        replaced = await acls.put(PlainName("bob"), asked_by_root(), ANY, EMPTY)
        assert (replaced.is_new, replaced.value.statements) == (False, [])
        await acls.delete(PlainName("User:bob"), asked_by_root())
        told = [
            (each.event, each.subject, each.source, each.resource, each.detail)
            for each in security.audit.entries()
            if each.event.startswith("policy")
        ]
        assert told == [
            ("policy changed", "root", "192.0.2.7", "bob", "1 statements"),
            ("policy changed", "root", "192.0.2.7", "bob", "0 statements"),
            ("policy deleted", "root", "192.0.2.7", "bob", ""),
        ]


async def test_of_whom_nothing_is_said() -> None:
    async with opened_security() as security:
        acls = Acls(security.administration)
        for missing in (acls.show(PlainName("User:bob")), acls.delete(PlainName("bob"), asked_by_root())):
            with pytest.raises(MissingError, match="nothing is said of 'bob'"):
                await missing
