"""Shards: numbers of several brokers are told apart, and lead back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.broker_of_queue import (
    FIRST_HASHED_NUMBER,
    MAX_BROKER_NUMBER,
    PLACES_PER_BROKER,
    QUEUES_PER_BROKER,
    broker_number,
    broker_of_place,
    broker_of_queue,
    first_place,
    first_queue,
    local_place,
    local_queue,
)
from entrepot.domain.topic import MAX_QUEUES
from tests.support.cases import cases

BROKERS = st.integers(0, MAX_BROKER_NUMBER)


@given(BROKERS, st.integers(0, QUEUES_PER_BROKER - 1), st.integers(0, PLACES_PER_BROKER - 1))
def test_numbers_lead_back(broker: int, queue: int, place: int):
    assert (broker_of_queue(first_queue(broker) + queue), local_queue(first_queue(broker) + queue)) == (broker, queue)
    assert (broker_of_place(first_place(broker) + place), local_place(first_place(broker) + place)) == (broker, place)
    assert first_place(broker) + place < 1 << 62


def test_the_first_broker_has_the_plain_numbers():
    assert first_queue(0) == first_place(0) == 0
    assert MAX_QUEUES <= QUEUES_PER_BROKER


@given(st.text(max_size=30))
def test_every_name_has_a_number(name: str):
    assert 0 <= broker_number(name) <= MAX_BROKER_NUMBER


@given(st.text(st.characters(codec="ascii", exclude_categories=["Nd"]), max_size=10), BROKERS)
def test_a_name_that_ends_with_a_number_has_it(name: str, number: int):
    assert broker_number(f"{name}{number}") == number


@cases("name", ["broker", "", "broker-10000", "2x", "b" + "9" * 5000, "broker-٣"])
def test_other_names_have_one_by_their_hash(name: str):
    assert broker_number(name) >= FIRST_HASHED_NUMBER
    assert broker_number(name) == broker_number(name)
