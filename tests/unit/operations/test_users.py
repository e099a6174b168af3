"""Users as their operations tell them: without HTTP."""

from __future__ import annotations

import pytest

from entrepot.domain.access.model import Action, Effect, Statement
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.operations.nouns.users import (
    UserBody,
    UserChangeAsked,
    UserDeletionAsked,
    UserHead,
    Users,
    UsersAsked,
    UserShown,
)
from entrepot.gateway.operations.row.problem import MissingError
from entrepot.gateway.operations.row.shapes import PlainName
from tests.support.gateways.opened_security import BY_ROOT, asked_by_root, opened_security

ANY, NEW = UserHead(), UserHead("*")
PLAIN = UserChangeAsked()


async def test_they_are_listed_by_name_in_pages() -> None:
    async with opened_security() as security:
        users = Users(security.administration)
        for name in ("Bea", "till"):
            await users.put(PlainName(name), asked_by_root(), PLAIN, ANY, UserBody())
        await users.put(PlainName("till"), asked_by_root(), PLAIN, ANY, UserBody(is_enabled=False))

        async def names(query: UsersAsked) -> tuple[list[str], str | None]:
            page = await users.listed(query)
            return [each.name for each in page.value], page.next

        assert await names(UsersAsked()) == (["Bea", "bob", "root", "till"], None)
        assert await names(UsersAsked(limit=2)) == (["Bea", "bob"], "bob")
        assert await names(UsersAsked(limit=2, after="bob")) == (["root", "till"], None)
        assert await names(UsersAsked(find="B")) == (["Bea", "bob"], None)
        assert await names(UsersAsked(is_super=True)) == (["root"], None)
        assert await names(UsersAsked(is_super=False, is_enabled=True)) == (["Bea", "bob"], None)
        assert await names(UsersAsked(is_enabled=False)) == (["till"], None)


async def test_a_change_sets_what_it_names_and_shows_no_secret() -> None:
    async with opened_security() as security:
        users = Users(security.administration)
        made = await users.put(
            PlainName("till"), asked_by_root(), PLAIN, NEW, UserBody(password="a", signing_secret="12345678")
        )
        assert made.is_new
        assert made.value == UserShown("till", False, True, True, True, 0)
        said = Statement(Effect.ALLOW, (Action.PUB,), ("Topic:a",))
        await security.administration.put_policy(BY_ROOT, "till", [said, said])
        changed = await users.put(
            PlainName("till"), asked_by_root(), PLAIN, ANY, UserBody(is_super=True, signing_secret="")
        )
        assert not changed.is_new
        assert changed.value == UserShown("till", True, True, True, False, 2)
        assert await users.show(PlainName("till")) == changed.value
        told = [
            (each.event, each.subject, each.source, each.detail)
            for each in security.audit.entries()
            if each.resource == "till" and each.event.startswith("user")
        ]
        assert told == [
            ("user created", "root", "192.0.2.7", "password changed, signing secret changed"),
            ("user changed", "root", "192.0.2.7", "signing secret changed, super: True"),
        ]


async def test_what_is_there_already_is_not_changed_by_who_wants_a_new_one() -> None:
    async with opened_security() as security:
        users = Users(security.administration)
        with pytest.raises(EntrepotError, match="there is a user 'bob' already"):
            await users.put(PlainName("bob"), asked_by_root(), PLAIN, NEW, UserBody(is_super=True))
        assert not (await users.show(PlainName("bob"))).is_super


async def test_own_rights_go_only_by_confirmation() -> None:
    async with opened_security() as security:
        users, root = Users(security.administration), PlainName("root")
        await users.put(PlainName("bob"), asked_by_root(), PLAIN, ANY, UserBody(is_super=True))
        for refused in (
            users.put(root, asked_by_root(), PLAIN, ANY, UserBody(is_super=False)),
            users.delete(root, asked_by_root(), UserDeletionAsked()),
        ):
            with pytest.raises(EntrepotError, match="your own user 'root'") as error:
                await refused
            assert error.value.code is Code.PRECONDITION_FAILED
        sure = UserChangeAsked("own-rights")
        lost = await users.put(root, asked_by_root(), sure, ANY, UserBody(is_super=False))
        assert not lost.value.is_super
        await users.delete(root, asked_by_root(), UserDeletionAsked("own-rights"))
        assert [each.name for each in (await users.listed(UsersAsked())).value] == ["bob"]


async def test_who_is_not_there() -> None:
    async with opened_security() as security:
        users = Users(security.administration)
        for missing in (
            users.show(PlainName("nobody")),
            users.delete(PlainName("nobody"), asked_by_root(), UserDeletionAsked()),
        ):
            with pytest.raises(MissingError, match="there is no user 'nobody'"):
                await missing
