"""Whoever is told what changed since its version has all of it, whatever it missed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain import topic_shares
from entrepot.domain.route import TopicRoute
from entrepot.domain.topic_shares import TopicShares

names = st.sampled_from("abcdefgh")
shares = st.builds(TopicRoute, names, st.integers(1, 3), st.just(1))
steps: st.SearchStrategy[tuple[str, Any, Any]] = st.one_of(
    st.tuples(st.just("change"), st.lists(shares, max_size=3), st.lists(names, max_size=2)),
    st.tuples(st.just("replace"), st.lists(shares, max_size=6, unique_by=lambda share: share.name), st.just([])),
    st.tuples(st.just("tell"), st.integers(0, 2), st.just([])),
)


@pytest.fixture(autouse=True, scope="module")
def few_remembered():
    patch = pytest.MonkeyPatch()
    patch.setattr(topic_shares, "MAX_REMEMBERED", 6)
    yield
    patch.undo()


@given(st.lists(steps, max_size=30))
def test_followers_have_what_there_is(taken):
    owner, model = TopicShares(), dict[str, TopicRoute]()
    followers = [TopicShares() for _ in range(3)]
    versions = [0, 0, 0]
    version = 0

    def tell(number: int) -> None:
        changes = owner.since(versions[number])
        if changes is None:
            followers[number].replace(0, tuple(owner.topics.values()))
        else:
            followers[number].change(0, *changes)
        versions[number] = version
        assert followers[number].topics == model

    for step, what, gone in taken:
        if step == "tell":
            tell(what)
            continue
        before = dict(model)
        version += 1
        if step == "replace":
            model = {share.name: share for share in what}
            differing = owner.replace(version, what)
        else:
            model.update({share.name: share for share in what})
            model = {name: share for name, share in model.items() if name not in gone}
            differing = owner.change(version, what, gone)
        assert owner.topics == model
        changed = {name for name in before.keys() | model.keys() if before.get(name) != model.get(name)}
        assert changed <= set(differing)
        if step == "replace":
            assert changed == set(differing)
    for number in range(3):
        tell(number)


def test_what_is_forgotten_is_told_whole():
    owner = TopicShares([TopicRoute("old", 1, 1)])
    for version in range(1, 8):
        owner.change(version, [TopicRoute(f"t{version}", 1, 1)])
    assert owner.since(0) is None
    told = owner.since(1)
    assert told is not None and {share.name for share in told[0]} == {f"t{version}" for version in range(2, 8)}
