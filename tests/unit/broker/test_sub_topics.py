"""The dictionary of sub-topic names: its sets of hashes are those that a walk over all names gives."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.broker.store.hash_scan import HashSet
from entrepot.broker.store.sub_topics import SubTopicDictionary
from entrepot.domain.filter_hash import TAG_BITS, sub_topic_hash
from entrepot.domain.routing.topic_filter import matches

LEVEL = st.sampled_from(["a", "b", "", "$x", "a.b", "a\n", "(", "é"])
NAME = st.lists(LEVEL, min_size=1, max_size=4).map("/".join).filter(bool)
FILTER = st.tuples(st.lists(LEVEL | st.just("+"), max_size=4), st.booleans()).map(
    lambda parts: "/".join([*parts[0], "#"] if parts[1] or not parts[0] else parts[0])
)
STEPS = st.lists(st.tuples(st.just("learn"), NAME) | st.tuples(st.just("ask"), FILTER.filter(bool)), max_size=40)


def hash_of(name: str) -> int:
    return sub_topic_hash(name) >> TAG_BITS


def members(hashes: HashSet) -> set[int]:
    found = [int(hash48) for hash48 in hashes.hashes]
    assert len(found) == len(set(found)) == len(hashes)
    return set(found)


@given(STEPS, st.integers(1, 12), st.integers(1, 3), st.sampled_from([2, 5, 1 << 48]))
def test_hashes_are_those_of_the_matching_names(
    steps: list[tuple[str, str]], max_names: int, max_filters: int, spread: int
):
    """A small `spread` makes names share hashes."""
    dictionary = SubTopicDictionary(max_names, max_filters)
    kept: dict[str, int] = {}
    turned_away: set[int] = set()
    for step, text in steps:
        if step == "learn":
            hash48 = hash_of(text) % spread or 1
            is_new = text not in kept and len(kept) < max_names
            if is_new:
                kept[text] = hash48
            elif text not in kept:
                turned_away.add(hash48)
            assert dictionary.learn(hash48, text) is is_new
        elif "+" in text or "#" in text:
            assert members(dictionary.hashes_matching(text)) == {h for name, h in kept.items() if matches(text, name)}
    assert len(dictionary) == len(kept)
    assert dictionary.is_complete is not bool(turned_away)
    known = dictionary.known_hashes()
    assert (known is None) is dictionary.is_complete
    if known is not None:
        assert members(known) == set(kept.values()) - turned_away
    assert dictionary.take_new() == list(kept)
    assert dictionary.take_new() == []


@given(FILTER.filter(bool), st.lists(NAME, unique=True, max_size=20), st.integers(1, 5))
def test_a_filter_may_be_prepared_in_steps(topic_filter: str, names: list[str], most: int):
    dictionary = SubTopicDictionary()
    dictionary.restore(names)
    steps = 1
    while not dictionary.prepare(topic_filter, most):
        steps += 1
    assert steps == max(1, -(-len(names) // most))
    expected = {hash_of(name) for name in names if matches(topic_filter, name)}
    assert members(dictionary.hashes_matching(topic_filter)) >= expected
    if "+" in topic_filter or "#" in topic_filter:
        assert members(dictionary.hashes_matching(topic_filter)) == expected


def test_a_filter_without_wildcards_is_its_own_name():
    dictionary = SubTopicDictionary()
    assert members(dictionary.hashes_matching("a/b")) == {hash_of("a/b")}
    assert members(dictionary.hashes_matching("")) == set()


def test_what_a_checkpoint_kept_comes_back():
    dictionary = SubTopicDictionary(3)
    for name in ("a/1", "a/2", "b/1", "b/2"):
        dictionary.learn(hash_of(name), name)
    names = dictionary.take_new()
    assert names == ["a/1", "a/2", "b/1"]
    after = SubTopicDictionary(3)
    after.restore(names, is_complete=dictionary.is_complete)
    assert after.names == dictionary.names
    assert after.take_new() == []
    assert not after.is_complete
    assert members(after.hashes_matching("+/1")) == {hash_of("a/1"), hash_of("b/1")}


def test_the_hot_path_sees_the_second_of_two_names_with_one_hash():
    dictionary = SubTopicDictionary()
    for name in ("a/1", "b/1", "a/1", "b/1"):
        if dictionary.names.get(7) != name:
            dictionary.learn(7, name)
    assert dictionary.twins == {7: ["b/1"]}
    assert members(dictionary.hashes_matching("b/#")) == members(dictionary.hashes_matching("a/#")) == {7}
    assert members(dictionary.hashes_matching("c/#")) == set()


def test_filters_are_asked_again_only_about_new_names():
    dictionary = SubTopicDictionary()
    dictionary.learn(1, "a/1")
    before = dictionary.hashes_matching("a/+")
    assert dictionary.hashes_matching("a/+") is before
    dictionary.learn(2, "b/1")
    assert dictionary.hashes_matching("a/+") is before
    dictionary.learn(3, "a/2")
    assert members(dictionary.hashes_matching("a/+")) == {1, 3}
    assert members(before) == {1}


def test_no_sub_topic_is_no_name_and_a_hash_above_its_tag_is_refused():
    dictionary = SubTopicDictionary()
    assert dictionary.learn(0, "") is False
    assert members(dictionary.hashes_matching("#")) == set()
    with pytest.raises(ValueError, match="48-bit"):
        dictionary.learn(sub_topic_hash("a"), "a")
    with pytest.raises(ValueError, match="48-bit"):
        HashSet([sub_topic_hash("a")])
