from tests.contract import test_transactions
from tests.contract_rocketmq_door import carried as why
from tests.support.stores.carried import carried

NOT_CARRIED: dict[str, str] = {
    "test_a_half_message_is_nowhere": why.FINDS_NOTHING,
    "test_a_committed_one_is_a_message_like_any": why.FINDS_NOTHING,
    "test_further_queues_get_it_when_it_is_committed": why.MULTI_DISPATCH,
    "test_half_messages_are_refused_like_any_and_need_a_name": why.NAMES_TAKEN,
    "test_a_deleted_topic_takes_them_along": why.TOPOLOGY,
    "test_a_committed_one_waits_for_its_time": why.ONE_KIND,
    "test_a_silent_producer_is_asked_after_a_while": why.CHECKS,
    "test_a_message_may_say_how_long_its_producer_may_be_silent": why.CHECKS,
    "test_it_is_asked_again_after_the_interval": why.CHECKS,
    "test_after_the_last_check_it_is_rolled_back": why.CHECKS,
    "test_until_the_next_check_is_due_the_last_one_may_be_answered": why.CHECKS,
    "test_one_that_nobody_asks_about_waits": why.CHECKS,
    "test_checks_are_of_the_topics_that_are_named": why.CHECKS,
    "test_checks_come_a_few_at_a_time": why.CHECKS,
    "test_waiting_half_messages_are_listed": why.FINDS_NOTHING,
    "test_a_listed_half_message_tells_its_checks": why.FINDS_NOTHING,
}

globals().update(carried(test_transactions, NOT_CARRIED))
