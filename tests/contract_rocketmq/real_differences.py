"""Tests of the contract that Apache RocketMQ 5.5.0 does not pass, by module and name, each with its reason.

`DIFFERENT` ones run and are to fail: one that passes is told.  Those with `TIME` work up to where they move the clock.
`LEFT_OUT` ones do not run: some would pass by chance."""

from __future__ import annotations

from typing import Final

TIME = "the test moves its clock, and a cluster has its own"
LATE_RETURN = "brokers bring back what is released, or was not settled, some seconds later"
WHOLE_QUEUE = "a FIFO group holds a whole queue of the broker, not a message group"
FROM_MEMORY = "a new group begins at the first message that the broker has in memory"
LATE_COMMIT = "brokers commit what is settled a moment later"
COMES_BACK = "a queue that comes back has its old messages"
EARLY = "brokers keep times in whole seconds, and deliver up to a second early"
HALVES_STAY = "a half message of a deleted topic stays"
BY_CHANCE = "a broker chooses the queues of a pop, and their order"
SLOW = "dozens of polls, each as long as the broker holds it"

NOT_TRIED = frozenset({TIME, BY_CHANCE, SLOW})
"""Reasons that tell nothing of the cluster: such a test cannot be run there."""

DIFFERENT: Final[dict[str, dict[str, str]]] = {
    "append_and_read": {"test_a_tail_goes_on_behind_what_is_gone": COMES_BACK},
    "fifo": {
        "test_the_first_of_a_run_given_back_waits_for_the_rest_of_it": WHOLE_QUEUE,
        "test_settling_out_of_order_opens_nothing": WHOLE_QUEUE,
        "test_messages_without_a_group_wait_for_nobody": WHOLE_QUEUE,
        "test_a_message_group_waits_for_its_first_that_waits": WHOLE_QUEUE,
        "test_the_retry_policy_holds_the_message_group": LATE_RETURN,
        "test_renewing_keeps_the_message_group": TIME,
        "test_a_dead_letter_lets_its_message_group_go_on": TIME,
        "test_nothing_leaves_the_order_for_a_retry_topic": TIME,
        "test_what_is_settled_does_not_come_again": WHOLE_QUEUE,
        "test_an_attempt_that_is_over_begins_anew": TIME,
        "test_another_attempt_gets_others": WHOLE_QUEUE,
    },
    "filters": {
        "test_a_message_that_comes_again_is_wanted_still": LATE_RETURN,
        "test_what_comes_again_is_filtered_by_who_receives_it": TIME,
        "test_what_comes_again_is_told_from_what_nobody_wants": TIME,
    },
    "pop": {
        "test_a_long_poll_is_woken_by_an_expiry": LATE_RETURN,
        "test_a_long_poll_is_woken_at_an_earlier_expiry": TIME,
        "test_where_a_group_begins": TIME,
        "test_a_small_pop_passes_over_what_is_spent": LATE_RETURN,
    },
    "pop_over": {
        "test_only_what_has_lived_so_long": TIME,
        "test_only_what_has_expired_and_nothing_behind_the_first_that_has_not": TIME,
        "test_what_is_not_over_has_no_attempt_more_and_keeps_its_place": LATE_RETURN,
        "test_what_is_given_back_has_its_old_place": LATE_RETURN,
        "test_a_group_without_a_limit_of_attempts": LATE_RETURN,
    },
    "positions": dict.fromkeys(
        (
            "test_the_offset_of_a_position",
            "test_positions_of_an_empty_queue",
            "test_the_first_of_several_messages_of_one_time",
            "test_positions_of_a_queue_that_came_back",
            "test_there_is_no_position_where_there_is_no_queue",
            "test_a_group_goes_on_from_a_position",
            "test_latest_is_behind_the_last_message",
            "test_attempts_begin_anew",
            "test_one_queue_alone_is_reset",
            "test_a_queue_of_a_topic_that_was_never_read",
            "test_other_groups_and_topics_stay_as_they_are",
            "test_a_long_poll_is_woken_by_a_reset",
        ),
        TIME,
    ),
    "settling": {
        "test_what_is_acknowledged_never_comes_back": TIME,
        "test_a_forged_handle_settles_nothing": TIME,
        "test_a_late_acknowledgement_counts_until_the_next_delivery": TIME,
        "test_the_request_says_how_long": LATE_RETURN,
        "test_renewing_keeps_the_handle": TIME,
        "test_renewing_after_expiry_and_before_redelivery": TIME,
        "test_releasing_gives_back_after_the_delay": LATE_RETURN,
        "test_what_may_wait_is_settled_all_the_same": TIME,
    },
    "timers": {
        "test_messages_come_in_the_order_of_their_times": TIME,
        "test_a_long_poll_is_woken_by_it": TIME,
        "test_a_tail_gets_it": TIME,
    },
    "transactions": {
        "test_one_that_is_rolled_back_never_comes": TIME,
        "test_a_committed_one_is_a_message_like_any": TIME,
        "test_a_deleted_topic_takes_them_along": HALVES_STAY,
    },
}

LEFT_OUT: Final[dict[str, dict[str, str]]] = {
    "fifo": {
        "test_other_message_groups_flow": BY_CHANCE,
        "test_a_name_in_another_queue_is_another_message_group": BY_CHANCE,
        "test_attempts_belong_to_their_group": BY_CHANCE,
    },
    "filters": {
        "test_lag_counts_what_was_not_looked_at": LATE_COMMIT,
        "test_what_is_not_wanted_is_settled": LATE_COMMIT,
    },
    "pull": {"test_pulling_touches_no_group": LATE_COMMIT},
    "timers": {
        "test_a_queue_that_is_gone_leaves_its_messages_to_another": EARLY,
        "test_before_its_time_it_is_nowhere": EARLY,
        "test_further_queues_get_it_at_its_time": EARLY,
        "test_what_is_no_time_is_refused": TIME,
    },
    "pop": {
        "test_pop_takes_from_all_queues": BY_CHANCE,
        "test_a_pop_that_is_cancelled_takes_nothing_along": SLOW,
    },
}
