"""Topic exchanges against a matcher that tries everything."""

from __future__ import annotations

import itertools
import random

from hypothesis import example, given
from hypothesis import strategies as st

from entrepot.domain.exchanges.binding import Binding
from entrepot.domain.exchanges.table import RoutedMessage
from entrepot.domain.exchanges.topic import TopicTable, has_wildcards, pattern_words
from tests.support.cases import cases
from tests.unit.domain.routing_model import split, topic_matches

pattern_texts = st.lists(st.sampled_from(["a", "b", "*", "#", "", "a*", "#b"]), max_size=6).map(".".join)
keys = st.lists(st.sampled_from(["a", "b", "c", "", "*", "#", "a*"]), max_size=6).map(".".join)


def matching(table: TopicTable, *routing_keys: str) -> set[str]:
    message = RoutedMessage(routing_keys, dict, dict)
    found = list(table.match(message))
    assert all(destinations.queues for destinations in found), "nothing empty is handed out"
    return {queue for destinations in found for queue in destinations.queues}


def table_of(patterns: list[str]) -> TopicTable:
    table = TopicTable()
    for pattern in patterns:
        table.add(Binding("x", pattern, pattern))
    return table


@given(st.lists(pattern_texts, unique=True, max_size=25), st.lists(keys, min_size=1, max_size=3))
@example(["#.#", "#", "*.#", "#.*", "#.*.#.*"], ["a"])
@example(["", "#", "*"], [""])
@example([".", "*.*", "#"], ["."])
def test_it_finds_what_trying_everything_finds(patterns, routing_keys):
    expected = {
        pattern for pattern in patterns if any(topic_matches(split(pattern), split(key)) for key in routing_keys)
    }
    assert matching(table_of(patterns), *routing_keys) == expected


@given(st.lists(pattern_texts, unique=True, min_size=1, max_size=20), st.lists(keys, min_size=1, max_size=5), st.data())
def test_what_is_taken_off_is_found_no_more(patterns, routing_keys, data):
    gone = data.draw(st.sets(st.sampled_from(patterns)))
    table = table_of(patterns)
    for pattern in gone:
        table.remove(Binding("x", pattern, pattern))
    left = [pattern for pattern in patterns if pattern not in gone]
    for key in routing_keys:
        assert matching(table, key) == matching(table_of(left), key)


def test_an_empty_table_has_nothing_left_of_what_was_in_it():
    patterns = ["".join(words) for words in itertools.product(["a", "*", "#"], [".b", ".#", ".*", ""], ["", ".c"])]
    table = table_of(patterns)
    for pattern in patterns:
        table.remove(Binding("x", pattern, pattern))
    assert table._root.is_empty
    assert not table._by_key


@cases(
    "pattern, words",
    [
        ("", []),
        ("a.b", ["a", "b"]),
        ("#.#", ["#"]),
        ("#.*", ["*", "#"]),
        ("#.*.#.a.#", ["*", "#", "a", "#"]),
        ("*.*", ["*", "*"]),
        (".", ["", ""]),
    ],
)
def test_runs_of_wildcards_have_one_order(pattern, words):
    assert pattern_words(pattern) == words


@given(pattern_texts, keys)
def test_that_order_says_the_same(pattern, key):
    assert topic_matches(pattern_words(pattern), split(key)) == topic_matches(split(pattern), split(key))


def test_a_word_that_only_holds_a_wildcard_is_a_word():
    assert not has_wildcards("a*.#b")
    assert has_wildcards("a.*")
    assert has_wildcards("#")


def test_several_bindings_to_one_queue_are_taken_off_one_by_one():
    table = TopicTable()
    first, second = Binding("x", "q", "a.*"), Binding("x", "q", "a.*", {"n": 1})
    table.add(first)
    table.add(second)
    table.remove(first)
    assert matching(table, "a.b") == {"q"}
    table.remove(second)
    assert matching(table, "a.b") == set()


def test_patterns_made_to_be_tried_in_many_ways_are_walked_once():
    """14 times `#.a` has 10^11 ways to fit into 60 words, and would not end."""
    table = table_of([".".join(["#.a"] * 14), ".".join(["#.a"] * 14 + ["b"]), ".".join(["#.*"] * 14)])
    assert matching(table, ".".join(["a"] * 60)) == {".".join(["#.a"] * 14), ".".join(["#.*"] * 14)}


def test_keys_of_28_binary_words_find_their_queue():
    """Celery's delayed exchanges: of the patterns with one 1, those at whose place the key has one."""
    patterns = ["*." * place + "1.#" for place in range(28)]
    table = table_of(patterns)
    rng = random.Random(28)
    for _ in range(200):
        bits = f"{rng.randrange(1 << 28):028b}"
        expected = {pattern for place, pattern in enumerate(patterns) if bits[place] == "1"}
        assert matching(table, ".".join(bits) + ".celery") == expected
