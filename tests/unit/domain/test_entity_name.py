"""Names of queues and exchanges as names of topics and groups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.entity_name import MAX_ENCODED_LENGTH, decoded_name, encoded_name
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import check_group_name, check_topic_name, is_topic_name
from tests.support.cases import cases

entities = st.text(st.characters(codec="utf-8"), max_size=80).filter(lambda name: len(name.encode()) <= 255)
short_entities = st.text(st.characters(codec="utf-8"), max_size=9)
odd_entities = st.text("%|~a.*é", max_size=60)


@given(entities | odd_entities)
def test_every_name_is_a_topics_and_a_groups(entity):
    name = encoded_name(entity)
    assert is_topic_name(name)
    check_group_name(name)
    check_topic_name(f"%AMQP%{name}", system_allowed=True)


@given(entities | odd_entities)
def test_it_comes_back_or_says_that_it_cannot(entity):
    assert decoded_name(encoded_name(entity)) in (entity, None)


@given(short_entities)
def test_short_names_come_back(entity):
    assert decoded_name(encoded_name(entity)) == entity


@given(odd_entities, odd_entities)
def test_two_entities_never_have_one_name(one, other):
    assert (encoded_name(one) == encoded_name(other)) == (one == other)


@given(st.text("%|~a.2E", max_size=12))
def test_what_is_not_encoded_is_not_decoded(name):
    entity = decoded_name(name)
    assert entity is None or encoded_name(entity) == name


@cases(
    "entity, name",
    [
        ("", "|"),
        ("celery", "celery"),
        ("amq.gen-1_2", "amq%2Egen-1_2"),
        (".events", "|%2Eevents"),
        ("%2E", "|%252E"),
        ("a|b~c", "a%7Cb%7Ec"),
        ("é", "|%C3%A9"),
        ("\udcff", "|%FF"),
    ],
)
def test_names_encoded_by_hand(entity, name):
    assert encoded_name(entity) == name
    assert decoded_name(name) == entity


def test_long_names_are_cut_and_end_with_a_hash():
    longest = "*" * 254
    names = {encoded_name(longest + last) for last in "*ab"}
    assert len(names) == 3
    assert all(len(name) <= MAX_ENCODED_LENGTH and name.startswith("|%2A%2A") for name in names)
    assert [decoded_name(name) for name in names] == [None] * 3
    assert len(encoded_name("a" * 120)) == 120
    assert encoded_name("a" * 121).startswith("a" * 87 + "|")


def test_longer_than_amqp_allows_is_refused():
    encoded_name("é" * 127)
    with pytest.raises(EntrepotError) as refusal:
        encoded_name("é" * 128)
    assert refusal.value.code is Code.BAD_REQUEST
