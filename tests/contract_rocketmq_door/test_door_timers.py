from tests.contract import test_timers
from tests.contract_rocketmq_door import carried as why
from tests.support.stores.carried import carried

NOT_CARRIED: dict[str, str] = {
    "test_at_its_time_it_is_a_message_like_any": why.ONE_KIND,
    "test_a_timed_message_is_never_early": why.FINDS_NOTHING,
    "test_further_queues_get_it_at_its_time": why.MULTI_DISPATCH,
    "test_as_far_ahead_as_it_may_be": why.FINDS_NOTHING,
    "test_other_refusals_come_when_it_is_sent": why.FINDS_NOTHING,
    "test_a_deleted_topic_takes_them_along": why.TOPOLOGY,
    "test_a_dead_letter_does_not_wait_again": why.FINDS_NOTHING,
    "test_what_waits_is_listed_the_next_one_first": why.FINDS_NOTHING,
    "test_listing_page_by_page": why.FINDS_NOTHING,
    "test_one_that_is_recalled_never_comes": why.FINDS_NOTHING,
    "test_a_timed_message_gets_another_time": why.FINDS_NOTHING,
    "test_a_new_time_that_is_over_delivers_it": why.FINDS_NOTHING,
    "test_what_cannot_get_another_time": why.FINDS_NOTHING,
}

globals().update(carried(test_timers, NOT_CARRIED))
