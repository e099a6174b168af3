"""Names of the groups behind shared subscriptions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.domain.entity_name import encoded_name
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.names import MAX_GROUP_LENGTH, check_group_name, check_topic_name, dead_letter_topic, is_topic_name
from entrepot.domain.share import filtered_share_group, queue_group, share_group, shared_queue, whole_topic
from tests.support.cases import cases

share_names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/+#\0"), min_size=1, max_size=8)
filters = st.text("abc/+#é$", min_size=1, max_size=10)


@given(share_names, share_names, filters, filters)
def test_two_shares_never_have_one_group(one: str, other: str, its_filter: str, others_filter: str):
    groups = {share_group(one), share_group(other)}
    filtered = {filtered_share_group(one, its_filter), filtered_share_group(other, others_filter)}
    assert len(groups) == len({one, other})
    assert len(filtered) == len({(one, its_filter), (other, others_filter)})
    assert not groups & filtered
    for name in groups | filtered:
        check_group_name(name)


@cases("share_name, group", [("workers", "workers"), ("a.b", "a%2Eb"), ("50%", "50%25"), ("a~b", "a%7Eb")])
def test_what_is_not_plain_is_encoded(share_name: str, group: str):
    assert share_group(share_name) == group


@cases("share_name", ["", "n" * (MAX_GROUP_LENGTH + 1), "." * 50])
def test_names_that_are_refused(share_name: str):
    with pytest.raises(EntrepotError) as refused:
        share_group(share_name)
    assert refused.value.code == Code.ILLEGAL_CONSUMER_GROUP


def test_a_name_that_leaves_no_room_for_the_hash_is_refused():
    name = "n" * MAX_GROUP_LENGTH
    assert share_group(name) == name
    with pytest.raises(EntrepotError) as refused:
        filtered_share_group(name, "t/+")
    assert refused.value.code == Code.ILLEGAL_CONSUMER_GROUP


@cases(
    "topic_filter, topic",
    [("t/#", "t"), ("t", None), ("t/a/#", None), ("+/#", None), ("#", None), ("/#", None), ("$SYS/#", None)],
)
def test_which_filters_want_one_whole_topic(topic_filter: str, topic: str | None):
    assert whole_topic(topic_filter) == topic


@cases(
    "topic_filter, topic",
    [("%AMQP%q/#", "%AMQP%q"), ("%AMQP%q", None), ("%AMQP%q/a/#", None), ("%DLQ%q/#", None), ("q/#", None)],
)
def test_which_filters_want_an_amqp_queue(topic_filter: str, topic: str | None):
    assert shared_queue(topic_filter) == topic


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60), st.text(min_size=1, max_size=9))
def test_a_queue_is_shared_by_its_own_name_alone(queue: str, other: str):
    group = encoded_name(queue)
    assert queue_group(queue, f"%AMQP%{group}") == queue_group(group, f"%AMQP%{group}") == group
    if other not in (queue, group):
        with pytest.raises(EntrepotError) as refused:
            queue_group(other, f"%AMQP%{group}")
        assert refused.value.code == Code.FORBIDDEN


def test_a_tilde_is_of_groups_and_their_dead_letters_only():
    check_topic_name(dead_letter_topic("w~1"), system_allowed=True)
    check_topic_name("%RETRY%w~1+t", system_allowed=True)
    assert not is_topic_name("w~1")
    with pytest.raises(EntrepotError):
        check_topic_name("%TRACE~%", system_allowed=True)
