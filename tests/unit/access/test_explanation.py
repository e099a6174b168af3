"""Explanations come to the decisions of the evaluator, for any policies and requests."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.access.evaluator import compile_statements, evaluate
from entrepot.domain.access.explanation import Outcome, Reach, explained, reach, statement_text
from entrepot.domain.access.model import Action, Effect, Origin, Principal, Request, ResourceType, Statement

ACTIONS = st.lists(st.sampled_from(list(Action)), min_size=1, max_size=2, unique=True)
PATTERNS = ("a/#", "a/b", "a/+", "b", "*", "${username}/#", "a*")
RESOURCES = st.lists(
    st.sampled_from([*(f"Topic:{each}" for each in PATTERNS), "Group:g"]), min_size=1, max_size=2, unique=True
)
SOURCES = st.sampled_from([(), ("10.0.0.0/8",), ("192.0.2.0/24",)])
STATEMENTS = st.builds(
    lambda effect, actions, resources, sources: Statement(effect, tuple(actions), tuple(resources), sources),
    st.sampled_from(list(Effect)),
    ACTIONS,
    RESOURCES,
    SOURCES,
)
POLICIES = st.tuples(st.lists(STATEMENTS, max_size=4), st.lists(STATEMENTS, max_size=3))
REQUESTS = st.builds(
    Request,
    st.sampled_from([each for each in Action if each is not Action.ALL]),
    st.just(ResourceType.TOPIC),
    st.sampled_from(["a/b", "a/#", "a/c", "b", "", "bob/x"]),
)
PRINCIPALS = st.builds(
    lambda name, source: Principal(name, Origin.PASSWORD, source),
    st.sampled_from(["bob", "a", "x/y"]),
    st.sampled_from(["10.1.1.1", "192.0.2.9", ""]),
)


@given(POLICIES, REQUESTS, PRINCIPALS)
def test_the_deciding_statement_is_the_evaluators(
    policies: tuple[list[Statement], list[Statement]], request: Request, principal: Principal
) -> None:
    compiled = [compile_statements(name, each) for name, each in zip(("bob", "*"), policies, strict=True)]
    decision = evaluate(principal, request, compiled)
    found = explained(principal, request, compiled)
    assert [(each.subject, each.statement) for each in found] == [
        (name, each) for name, policy in zip(("bob", "*"), policies, strict=True) for each in policy
    ]
    deciding = [each for each in found if each.outcome is Outcome.DECIDES]
    if decision.statement is None:
        assert deciding == []
        assert all(each.outcome is not Outcome.HOLDS for each in found)
    else:
        assert [(each.subject, each.statement) for each in deciding] == [(decision.subject, decision.statement)]
        place = deciding[0]
        assert policies[0 if place.subject == "bob" else 1][place.index - 1] == decision.statement


@given(POLICIES, REQUESTS, PRINCIPALS)
def test_the_overview_agrees_with_the_decision(
    policies: tuple[list[Statement], list[Statement]], request: Request, principal: Principal
) -> None:
    compiled = [compile_statements(name, each) for name, each in zip(("bob", "*"), policies, strict=True)]
    decision, reached = evaluate(principal, request, compiled), reach(principal, request, compiled)
    assert (reached is Reach.ALLOWED) == decision.is_allowed
    assert (reached is Reach.DENIED) == (decision.statement is not None and not decision.is_allowed)


def test_some_is_a_part_or_some_addresses() -> None:
    bob = Principal("bob", Origin.PASSWORD, "192.0.2.9")

    def reached(resource: str, name: str, *sources: str) -> Reach:
        statement = Statement(Effect.ALLOW, (Action.SUB,), (resource,), sources)
        return reach(bob, Request(Action.SUB, ResourceType.TOPIC, name), [compile_statements("bob", [statement])])

    assert reached("Topic:a/b", "a/#") is Reach.SOME
    assert reached("Topic:a/#", "a/#") is Reach.ALLOWED
    assert reached("Topic:a/#", "a/#", "10.0.0.0/8") is Reach.SOME
    assert reached("Topic:b/#", "a/#") is Reach.NONE
    assert reached("Group:a", "a") is Reach.NONE


def test_a_statement_in_one_line() -> None:
    statement = Statement(Effect.ALLOW, (Action.PUB, Action.SUB), ("Topic:a/#", "Group:b"), ("10.0.0.0/8",))
    assert statement_text(statement) == "ALLOW PUB, SUB on Topic:a/#, Group:b from 10.0.0.0/8"
