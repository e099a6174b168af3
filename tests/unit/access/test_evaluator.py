"""The evaluator: patterns, placeholders, sources, and policies against a slow model."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.access.evaluator import compile_statements, evaluate, is_loopback, may_be_known
from entrepot.domain.access.model import (
    EVERYTHING,
    Action,
    Effect,
    Origin,
    Principal,
    Request,
    ResourceType,
    Statement,
    access_name,
    whole_topic,
)
from entrepot.domain.access.pattern import parse_pattern
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.routing.topic_filter import is_valid_filter, matches
from tests.support.cases import cases
from tests.unit.access.test_filter_sets import names_of

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


def principal(client_id: str = "c1", name: str = "bob", source: str = "10.1.2.3") -> Principal:
    return Principal(name, Origin.PASSWORD, source, client_id)


def allow(*resources: str, actions: tuple[Action, ...] = (Action.SUB,), sources: tuple[str, ...] = ()) -> Statement:
    return Statement(Effect.ALLOW, actions, resources, sources)


def deny(*resources: str, actions: tuple[Action, ...] = (Action.SUB,), sources: tuple[str, ...] = ()) -> Statement:
    return Statement(Effect.DENY, actions, resources, sources)


def asks(
    statements: list[Statement],
    name: str,
    who: Principal | None = None,
    resource_type: ResourceType = TOPIC,
    action: Action = Action.SUB,
) -> bool:
    compiled = compile_statements("bob", statements)
    return evaluate(who or principal(), Request(action, resource_type, name), [compiled]).is_allowed


# -- the model -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    statements: tuple[Statement, ...]
    asked: str
    action: Action


_filters = st.lists(st.sampled_from(["a", "b", "+", "#", ""]), min_size=1, max_size=3).map("/".join)
_filters = _filters.filter(lambda text: is_valid_filter(text) and not text.endswith("*"))
_statements = st.builds(
    Statement,
    st.sampled_from(list(Effect)),
    st.lists(st.sampled_from([Action.PUB, Action.SUB, Action.ALL]), min_size=1, max_size=2).map(tuple),
    st.lists(_filters.map("Topic:{}".format), min_size=1, max_size=2).map(tuple),
)


@given(
    st.builds(Case, st.lists(_statements, max_size=4).map(tuple), _filters, st.sampled_from([Action.PUB, Action.SUB]))
)
def test_policies_do_as_the_model_says(case: Case) -> None:
    asked = names_of(case.asked)
    holding = [each for each in case.statements if case.action in each.actions or Action.ALL in each.actions]
    patterns = [(each.effect, text.removeprefix("Topic:")) for each in holding for text in each.resources]
    denied = any(effect is Effect.DENY and names_of(text) & asked for effect, text in patterns)
    allowed = any(effect is Effect.ALLOW and asked <= names_of(text) for effect, text in patterns)
    assert asks(list(case.statements), case.asked, action=case.action) == (allowed and not denied)


_levels = st.text(alphabet="ab+#/$", min_size=0, max_size=3)


@given(_levels, st.lists(st.sampled_from(["a", "b", "ab", "+", "#", "$"]), min_size=1, max_size=2).map("/".join))
def test_a_placeholder_stands_for_one_level_and_nothing_else(client_id: str, asked: str) -> None:
    granted = asks([allow("Topic:d/${clientid}")], f"d/{asked}", principal(client_id))
    usable = bool(client_id) and not any(character in client_id for character in "+#/")
    assert granted == (usable and asked == client_id)


# -- cases -----------------------------------------------------------------------------------------------------------


def test_nothing_said_is_denied() -> None:
    assert not asks([], "a")
    assert not asks([allow("Topic:*", actions=(Action.PUB,))], "a")
    assert not asks([allow("Group:*")], "a")


@cases("client_id", ["", "+", "#", "a/b", "a+", "x/#"])
def test_an_id_that_is_a_wildcard_opens_nothing(client_id: str) -> None:
    who = principal(client_id)
    for asked in ("devices/x", "devices/#", f"devices/{client_id}", f"devices/{client_id}/t"):
        assert not asks([allow("Topic:devices/${clientid}/#")], asked, who)


def test_an_id_that_fits_nowhere_escapes_no_denial() -> None:
    statements = [allow("Topic:#"), deny("Topic:devices/${clientid}/secret")]
    assert not asks(statements, "devices/c1/secret", principal("c1"))
    assert asks(statements, "devices/c2/secret", principal("c1"))
    assert not asks(statements, "devices/c2/secret", principal("+"))


def test_nobody_names_himself_into_the_servers_names() -> None:
    assert asks([allow("Topic:${clientid}/#")], "c1/x")
    assert not asks([allow("Topic:${clientid}/#")], "$SYS/x", principal("$SYS"))
    assert asks([allow("Topic:x/${clientid}")], "x/$SYS", principal("$SYS"))


def test_a_value_is_not_read_as_a_placeholder_again() -> None:
    assert asks([allow("Topic:u/${username}/x")], "u/${clientid}/x", principal("c1", "${clientid}"))
    assert not asks([allow("Topic:u/${username}/x")], "u/c1/x", principal("c1", "${clientid}"))


def test_a_subscription_needs_all_of_its_names() -> None:
    statements = [allow("Topic:a/b"), allow("Topic:a/c")]
    assert not asks(statements, "a/+")
    assert not asks([allow("Topic:a/#"), deny("Topic:a/+/secret")], "a/#")
    assert asks([allow("Topic:a/#"), deny("Topic:a/+/secret")], "a/b/temp")


def test_sources_are_a_condition() -> None:
    statements = [allow("Topic:a", sources=("10.0.0.0/8", "::1/128"))]
    assert asks(statements, "a")
    assert asks(statements, "a", principal(source="::ffff:10.9.9.9"))
    assert not asks(statements, "a", principal(source="11.0.0.1"))
    assert not asks(statements, "a", principal(source=""))
    assert not asks(statements, "b"), "a source alone allows nothing"
    denying = [allow("Topic:a"), deny("Topic:a", sources=("10.0.0.0/8",))]
    assert not asks(denying, "a")
    assert asks(denying, "a", principal(source="11.0.0.1"))
    assert not asks(denying, "a", principal(source="")), "who hides where he is escapes no denial"


def knows(*statements: Statement, name: str = "factory/#", who: Principal | None = None) -> bool:
    return may_be_known(who or principal(), TOPIC, name, [compile_statements("bob", statements)])


def test_who_has_a_right_on_a_part_may_hear_of_the_whole() -> None:
    assert not knows()
    assert not knows(allow("Topic:other/#"), allow("Group:factory"))
    for resource in ("Topic:factory", "Topic:factory/a/b", "Topic:+/a", "Topic:fac*", "Topic:*"):
        assert knows(allow(resource))
        assert knows(allow(resource), deny("Topic:factory/a/b/c"))
        assert knows(allow(resource), deny("Topic:factory/#", actions=(Action.PUB,)))
        assert not knows(allow(resource), deny("Topic:factory/#"))
        assert not knows(allow(resource), deny("Topic:factory/#", actions=(Action.ALL,)))
        assert not knows(allow(resource, sources=("192.168.0.0/16",)))
    assert knows(allow("Topic:factory/${clientid}"))
    assert not knows(allow("Topic:factory/${clientid}"), who=principal(client_id="+"))


def test_groups() -> None:
    assert asks([allow("Group:w*")], "workers", resource_type=GROUP)
    assert not asks([allow("Group:workers")], "workers2", resource_type=GROUP)
    assert not asks([allow("Group:*"), deny("Group:workers")], "workers", resource_type=GROUP)
    assert asks([allow("Group:${username}")], "bob", resource_type=GROUP)


def test_everything_of_a_type() -> None:
    assert asks([allow("Topic:*")], EVERYTHING)
    assert not asks([allow("Topic:#")], EVERYTHING), "it leaves out the names with $"
    assert not asks([allow("Topic:*"), deny("Topic:a")], EVERYTHING)
    assert not asks([allow("Group:w*")], EVERYTHING, resource_type=GROUP)


def test_names_of_a_namespace_are_reached_by_name_only() -> None:
    name = whole_topic("plant/factory")
    assert name == "$ns/plant/factory/#"
    assert not asks([allow("Topic:#", "Topic:plant/#", "Topic:factory/#")], name)
    assert asks([allow("Topic:$ns/plant/#")], name)
    assert not asks([allow("Group:plant*")], access_name("plant/workers"), resource_type=GROUP)
    assert asks([allow("Group:$ns/plant/*")], access_name("plant/workers"), resource_type=GROUP)


@cases(
    "text",
    [
        "",
        "Topic",
        "Topic:",
        "Queue:a",
        "Topic:a/#/b",
        "Topic:a+",
        "Topic:${clientid}*",
        "Topic:a/${other}",
        "Topic:a+*",
    ],
)
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(EntrepotError) as refused:
        parse_pattern(text)
    assert refused.value.code is Code.BAD_REQUEST


@cases("text", ["10.0.0.1/8", "anywhere", "10.0.0.0/40"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(EntrepotError):
        compile_statements("bob", [allow("Topic:a", sources=(text,))])


def test_loopback() -> None:
    assert all(is_loopback(text) for text in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"))
    assert not any(is_loopback(text) for text in ("", "localhost", "10.0.0.1", "0.0.0.0", "::", "127.0.0.1.example"))


def test_the_model_sees_what_it_should() -> None:
    assert matches("a/+", "a/b") and "a/b" in names_of("a/+")
