"""The index of filters gives what asking every filter gives, and asks few."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.event_filters.event_filter_index import MAX_SIGNATURES, FilterIndex
from entrepot.domain.event_filters.event_filter_json import EventFilterError, parse_event_filters
from entrepot.domain.event_filters.necessary_condition import necessity_of
from entrepot.domain.event_filters.prefix_tree import PrefixTree
from tests.support.cases import cases
from tests.tiers.marks import scaled
from tests.unit.expression.event_filter_model import events, filter_lists, simple_sql


def index_of(*documents):
    index = FilterIndex()
    for key, document in enumerate(documents):
        index.add(key, parse_event_filters(document))
    return index


def valid(documents):
    try:
        return parse_event_filters(documents)
    except EventFilterError:  # an expression with a part that is always an error
        return None


steps = st.lists(
    st.tuples(st.integers(0, 12), st.none() | filter_lists.map(valid).filter(lambda filters: filters is not None)),
    max_size=20,
)


@given(steps, st.lists(events, min_size=1, max_size=6))
def test_the_index_is_asking_every_filter(changes, several):
    """Subscriptions come, change and go; after each step every event reaches the same ones."""
    index, kept = FilterIndex(), {}
    for key, filters in changes:
        if filters is None:
            assert index.remove(key) is (kept.pop(key, None) is not None)
        else:
            index.add(key, filters)
            kept[key] = filters
        assert len(index) == len(kept)
        for event in several:
            found = index.match(event)
            assert len(found) == len(set(found))
            assert set(found) == {each for each, filters in kept.items() if filters.matches(event)}
    for key in kept:
        assert key in index
        assert index.remove(key)
    assert all(index.match(event) == [] for event in several)
    assert (index._tables, index._signatures, index._always, index._entries) == ({}, {}, {}, {})


@given(filter_lists, events)
def test_conditions_are_necessary_and_sufficient_where_they_say_so(documents, event):
    filters = valid(documents)
    if filters is None:
        return
    necessity = necessity_of(filters.filters)
    held = all(any(_holds(condition, event) for condition in clause) for clause in necessity.clauses)
    if filters.matches(event):
        assert held
    elif necessity.sufficient:
        assert not held


def _holds(condition, event):
    strings = {name: value if isinstance(value, str) else str(value).lower() for name, value in event.items()}
    match type(condition).__name__:
        case "Equals":
            return all(strings.get(name) == text for name, text in condition.attributes)
        case "StartsWith":
            return strings.get(condition.name, "").startswith(condition.text)
        case "EndsWith":
            return strings.get(condition.name, "").endswith(condition.text)
    return condition.name in event


@cases(
    "text, event, matches",
    [
        ("n = 1", {"n": "01"}, True),
        ("'01' = n", {"n": 1}, True),
        ("'01' = n", {"n": "1"}, False),
        ("'-0' = n", {"n": 0}, True),
        ("'TRUE' = n", {"n": True}, True),
        ("n = 'TRUE'", {"n": True}, False),
        ("n = 'true'", {"n": True}, True),
        ("n IN ('01', 'x')", {"n": 1}, True),
        ("n IN ('x', '1')", {"n": 1}, False),
        ("n IN ('TRUE')", {"n": True}, True),
        ("n IN (5)", {"n": True}, True),
        ("n IN (5)", {"n": "5"}, True),
        ("n LIKE '1'", {"n": 1}, True),
        ("n LIKE 't%e'", {"n": True}, True),
        ("n LIKE 'a%a'", {"n": "a"}, False),
        ("n LIKE 'a_'", {"n": "a"}, False),
        ("n LIKE 'a\\%%'", {"n": "a%b"}, True),
        ("n LIKE 'a\\b'", {"n": "a\\b"}, True),
        ("n = ''", {"n": ""}, True),
        ("nowhere = 'x' OR n = 'a'", {"n": "a"}, False),
        ("n = 'a' OR nowhere = 'x'", {"n": "a"}, True),
        ("n = 'a' XOR m = 'a'", {"n": "b", "m": "a"}, True),
        ("n = 'a' OR m = 'a' AND m = 'b'", {"n": "a", "m": "b"}, True),
        ("NOT (n = 'a' AND nowhere = 'x')", {"n": "b"}, True),
        ("NOT (n = 'a')", {}, False),
        ("n NOT LIKE 'a%'", {"n": "b"}, True),
        ("n NOT IN ('a')", {"n": "b"}, True),
        ("n = 'a' = FALSE", {"n": "b"}, True),
        ("EXISTS n", {"n": ""}, True),
    ],
)
def test_what_a_condition_must_not_leave_out_or_let_in(text, event, matches):
    index = index_of([{"sql": text}])
    assert index.match(event) == [0] * matches


@given(simple_sql, simple_sql, st.sampled_from(["AND", "OR", "XOR"]), events)
def test_two_comparisons_by_the_index_are_themselves(one, other, word, event):
    for text in (one, f"{one} {word} {other}"):
        filters = valid([{"sql": text}])
        if filters is not None:
            index = FilterIndex()
            index.add("it", filters)
            assert index.match(event) == ["it"] * filters.matches(event)


MANY = scaled(250, 1000)
OF_ONE = MANY // 2


@pytest.mark.scaled
@cases(
    "document",
    [
        [{"exact": {"type": "t{n}"}}],
        [{"exact": {"type": "t", "subject": "s{n}"}}],
        [{"exact": {"type": "t"}}, {"exact": {"subject": "s{n}"}}],
        [{"prefix": {"subject": "s{n}/"}}],
        [{"suffix": {"subject": "/{n}s"}}],
        [{"all": [{"prefix": {"type": "t"}}, {"suffix": {"subject": "/{n}s"}}]}],
        [{"any": [{"exact": {"type": "t{n}"}}, {"prefix": {"subject": "s{n}/"}}]}],
        [{"not": {"exact": {"type": "u"}}}, {"exact": {"subject": "s{n}"}}],
        [{"sql": "type = 't{n}'"}],
        [{"sql": "'t{n}' = type AND nowhere > 3"}],
        [{"sql": "type = 't' AND subject LIKE 's{n}/%'"}],
        [{"sql": "subject LIKE '%/{n}s' AND LENGTH(type) < 5"}],
        [{"sql": "type IN ('t{n}', 'u{n}') AND NOT EXISTS nowhere"}],
        [{"sql": "(type = 't{n}' AND subject = 'a') OR (subject = 's{n}' AND type = 'b')"}],
        [{"sql": "EXISTS extension{n}"}],
        [{"sql": "extension{n} + 1 = 5"}],
        [{"sql": "NOT (extension{n} = 'x')"}],
    ],
)
def test_who_does_not_match_is_not_asked(document):
    """Of many subscriptions that differ in what they want, one event asks a few.

    More than one, as the first ones are put where it looks best before there are others.
    """
    index = FilterIndex()
    for number in range(MANY):
        index.add(number, parse_event_filters(json.loads(json.dumps(document).replace("{n}", str(number)))))
    event = {"id": "1", "source": "/x", "type": f"t{OF_ONE}", "subject": f"s{OF_ONE}/{OF_ONE}s"}
    assert count_asked(index, event) <= 4
    assert count_asked(index, {**event, "subject": f"s{OF_ONE}", "type": "t"}) <= 4
    assert count_asked(index, {**event, f"extension{OF_ONE}": "4"}) <= 4


def count_asked(index: FilterIndex[int], event: dict[str, str]) -> int:
    """How many filters an event is compared with."""
    return sum(not entry.certain for entry in dict.fromkeys(index._candidates(event)))


def test_equal_filters_are_asked_once():
    index = index_of(*[[{"not": {"exact": {"type": "a"}}}]] * 100)
    assert count_asked(index, {"type": "b"}) == 1
    assert sorted(index.match({"type": "b"})) == list(range(100))
    assert index.match({"type": "a"}) == []


def test_a_subscription_is_replaced_and_let_go():
    index = index_of([{"exact": {"type": "a"}}])
    index.add(0, parse_event_filters([{"exact": {"type": "b"}}]))
    assert index.match({"type": "a"}) == []
    assert index.match({"type": "b"}) == [0]
    assert index.remove(0)
    assert not index.remove(0)
    assert 0 not in index


def test_who_has_no_filters_wants_everything():
    index = index_of([], [])
    assert index.match({}) == [0, 1]
    assert count_asked(index, {}) == 0


def test_what_contradicts_itself_is_never_asked():
    index = index_of([{"exact": {"type": "a"}}, {"exact": {"type": "b"}}], [{"sql": "type = 'a' AND type = 'b'"}])
    assert count_asked(index, {"type": "a"}) == 0
    assert index.match({"type": "a"}) == []


def test_sets_of_attributes_beyond_the_limit_are_still_found():
    """Every event looks up each set once: beyond the limit one attribute is looked up, and the filter asked."""
    index = FilterIndex()
    count = MAX_SIGNATURES * 3
    for number in range(count):
        index.add(number, parse_event_filters([{"exact": {f"x{number}": "a", f"y{number}": "b"}}]))
    assert len(index._signatures) == MAX_SIGNATURES
    for number in range(count):
        assert index.match({f"x{number}": "a", f"y{number}": "b"}) == [number]
        assert index.match({f"x{number}": "a", f"y{number}": "a"}) == []
        assert index.match({f"x{number}": "a"}) == []


def test_long_expressions_are_put_in_their_place_quickly():
    """What is taken out of an expression grows with it, not with its square."""
    index = FilterIndex()
    index.add("and", parse_event_filters([{"sql": " AND ".join(f"a{number} = 1" for number in range(500))}]))
    index.add("or", parse_event_filters([{"sql": " OR ".join(f"a = '{number}'" for number in range(500))}]))
    index.add(
        "both", parse_event_filters([{"sql": " AND a = 'x' OR ".join(f"b = '{number}'" for number in range(60))}])
    )
    assert index.match({"a": "499"}) == ["or"]
    assert index.match({f"a{number}": "1" for number in range(500)}) == ["and"]
    assert index.match({"a": "x", "b": "7"}) == ["both"]


words = st.text(alphabet="ab", min_size=1, max_size=6)


@given(st.lists(st.tuples(st.booleans(), words), max_size=30), st.lists(words, max_size=6))
def test_a_prefix_tree_is_a_set_of_texts(changes, asked):
    tree, kept = PrefixTree(), {}
    for added, text in changes:
        if added:
            assert tree.setdefault(text, [text]) == kept.setdefault(text, [text])
        else:
            assert tree.pop(text, None) == kept.pop(text, None)
        assert bool(tree) is bool(kept)
        for each in [*asked, text]:
            assert tree.get(each) == kept.get(each)
            wanted = sorted((begin for begin in kept if each.startswith(begin)), key=len)
            assert tree.found(each) == [[begin] for begin in wanted]


def test_a_prefix_tree_forgets_what_it_held():
    rng = random.Random(7)
    texts = ["".join(rng.choices("abc", k=rng.randint(1, 12))) for _ in range(500)]
    tree = PrefixTree()
    for text in texts:
        tree.setdefault(text, [])
    rng.shuffle(texts)
    for text in texts:
        tree.pop(text, None)
    assert not tree
