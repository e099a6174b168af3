"""The index of retained names against a list of names and `matches`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.routing.topic_filter import matches
from entrepot.gateway.retained.index import BUCKET_MS, PAGE_VISITS, RetainedIndex

LEVEL = st.sampled_from(["", "a", "b", "c", "$x", "temp"])
NAME = st.lists(LEVEL, min_size=1, max_size=5).map("/".join).filter(bool)
FILTER = st.tuples(st.lists(st.one_of(LEVEL, st.just("+")), max_size=5), st.sampled_from(["", "#"])).map(
    lambda parts: "/".join([*parts[0], *([parts[1]] if parts[1] else [])])
)
CHANGE = st.tuples(NAME, st.one_of(st.none(), st.tuples(st.integers(0, 2000), st.sampled_from([0, 5_000, 50_000]))))
NOW_MS = 20_000


def filled(changes: list[tuple[str, tuple[int, int] | None]]) -> tuple[RetainedIndex, dict[str, tuple[int, int]]]:
    index = RetainedIndex()
    model: dict[str, tuple[int, int]] = {}
    for name, fact in changes:
        if fact is None:
            assert index.remove(name) is (model.pop(name, None) is not None)
        else:
            index.put(name, *fact)
            model[name] = fact
    return index, model


def found(index: RetainedIndex, topic_filter: str, after: str | None = None) -> list[str]:
    return [name for page in index.pages(topic_filter, NOW_MS, after) for name in page]


@given(st.lists(CHANGE, max_size=40), FILTER.filter(bool), NAME)
def test_as_the_slow_model(changes, topic_filter, probe):
    index, model = filled(changes)
    fresh = [name for name, (_, expires) in model.items() if not expires or expires > NOW_MS]
    wanted = [name for name in fresh if matches(topic_filter, name)]
    assert sorted(found(index, topic_filter)) == sorted(wanted)
    assert (index.count, index.size_bytes) == (len(model), sum(size for size, _ in model.values()))
    assert {name: index.size_of(name) for name in [*model, probe]} == {
        name: model.get(name, (None,))[0] for name in [*model, probe]
    }
    assert (probe in index) is (probe in model)


@given(st.lists(CHANGE, max_size=40), FILTER.filter(bool), st.one_of(NAME, st.just("")))
def test_in_the_order_of_levels_behind_a_name(changes, topic_filter, after):
    index, model = filled(changes)
    fresh = [name for name, (_, expires) in model.items() if not expires or expires > NOW_MS]
    wanted = [name for name in fresh if matches(topic_filter, name) and name.split("/") > after.split("/")]
    assert found(index, topic_filter, after) == sorted(wanted, key=lambda name: name.split("/"))


@given(st.lists(CHANGE, max_size=40))
def test_all_is_gone_when_all_was_removed(changes):
    index, model = filled(changes)
    for name in model:
        assert index.remove(name)
    assert (index.count, index.size_bytes, index._root, index._due) == (0, 0, {}, {})


@given(st.lists(CHANGE, max_size=40), st.integers(0, 70_000), st.integers(0, 50))
def test_what_is_due(changes, now_ms, limit):
    index, model = filled(changes)
    due = {name for name, (_, expires) in model.items() if expires and (expires // BUCKET_MS + 1) * BUCKET_MS <= now_ms}
    told = index.due(now_ms, limit)
    assert len(told) == len(set(told)) == min(limit, len(due))
    assert set(told) <= due


def test_pages_are_bounded_and_names_may_come_and_go_between_them():
    index = RetainedIndex()
    names = [f"site/{number % 7}/device/{number}/temp" for number in range(5 * PAGE_VISITS)]
    for name in names:
        index.put(name, 10)
    told: list[str] = []
    for number, page in enumerate(index.pages("#", NOW_MS)):
        assert len(page) <= PAGE_VISITS
        told += page
        index.remove(names[number])
        index.put(f"new/{number}", 1)
        index.put(f"site/1/device/{number}/temp/more", 1)
    there_all_the_time = set(names[number + 1 :])
    assert there_all_the_time <= set(told)
    assert len(told) == len(set(told))


def test_a_filter_that_finds_nothing_stops_as_often():
    index = RetainedIndex()
    for number in range(3 * PAGE_VISITS):
        index.put(f"a/{number}/temp", 10)
    assert [page for page in index.pages("+/+/pressure", NOW_MS) if page] == []
    assert len(list(index.pages("+/+/pressure", NOW_MS))) >= 3
