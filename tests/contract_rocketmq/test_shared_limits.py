from tests.contract import test_limits
from tests.contract_rocketmq import carried as why
from tests.support.stores.carried import carried

NOT_CARRIED: dict[str, str] = {
    "test_a_topic_is_full_when_its_slowest_group_is_too_far_behind": why.LIMITS,
    "test_a_backlog_counts_as_it_is_before_the_batch": why.LIMITS,
    "test_a_full_topic_does_not_harm_its_neighbours": why.LIMITS,
    "test_a_pop_gives_what_is_left_of_the_messages_in_flight": why.LIMITS,
    "test_a_pop_beyond_the_messages_in_flight_is_refused_at_once": why.LIMITS,
    "test_messages_in_flight_are_counted_by_topic": why.LIMITS,
    "test_the_limit_can_be_changed": why.LIMITS,
    "test_a_topic_limits_the_size_of_its_messages": why.LIMITS,
    "test_released_and_expired_messages_are_not_in_flight": why.RELEASE,
    "test_messages_of_a_compacted_topic_need_a_key": why.RETRIES,
}

globals().update(carried(test_limits, NOT_CARRIED))
