"""Tests of the contract that Apache RocketMQ 5.5.0 does not pass, by module and name, each with its reason.

`DIFFERENT` ones run and are to fail: one that passes is told.  Those with `TIME` work up to where they move the clock.
`LEFT_OUT` ones do not run."""

from __future__ import annotations

from typing import Final

TIME = "the test moves its clock, and a cluster has its own"
OFFSETS = "the proxy answers the calls by offset UNIMPLEMENTED"
LEASE = "the proxy refuses a lease shorter than 10 s"
LATE_SETTLING = "brokers answer OK to an acknowledgement of what is settled, or of a delivery that is over"
LATE_RETURN = "brokers bring back what is released some seconds later"
WHOLE_QUEUE = "a FIFO group holds a whole queue of the broker, not a message group"
FROM_MEMORY = "a new group begins at the first message that the broker has in memory"
ROUTE_CACHE = "the proxy keeps a route for a while: queues that come later are found after that"
WHOLE_NUMBERS = "RocketMQ's SQL does not compare a text with a fraction to a number"
LIMITS = "topics and groups of RocketMQ do not have these limits"
BY_CHANCE = "the cluster chooses the queue, and the order of messages that go out at once"
NEVER_COMES = f"it waits for a tail to its limit: {OFFSETS}"
SLOW = "dozens of polls, each as long as the proxy holds it"

DIFFERENT: Final[dict[str, dict[str, str]]] = {
    "append_and_read": {
        "test_queues_of_a_topic_grow": OFFSETS,
        "test_a_tail_goes_on_behind_what_is_gone": OFFSETS,
    },
    "fifo": {
        "test_the_first_of_a_run_given_back_waits_for_the_rest_of_it": WHOLE_QUEUE,
        "test_settling_out_of_order_opens_nothing": WHOLE_QUEUE,
        "test_messages_without_a_group_wait_for_nobody": WHOLE_QUEUE,
        "test_a_message_group_waits_for_its_first_that_waits": WHOLE_QUEUE,
        "test_the_retry_policy_holds_the_message_group": LATE_RETURN,
        "test_an_expired_run_is_delivered_again_in_order": TIME,
        "test_renewing_keeps_the_message_group": TIME,
        "test_a_dead_letter_lets_its_message_group_go_on": TIME,
        "test_nothing_leaves_the_order_for_a_retry_topic": TIME,
        "test_what_is_settled_does_not_come_again": WHOLE_QUEUE,
        "test_an_attempt_that_is_over_begins_anew": TIME,
    },
    "filters": {
        "test_messages_are_filtered_by_properties": WHOLE_NUMBERS,
        "test_by_several_topic_filters": OFFSETS,
        "test_what_is_not_wanted_is_settled": OFFSETS,
        "test_lag_counts_what_was_not_looked_at": OFFSETS,
        "test_a_message_that_comes_again_is_wanted_still": LEASE,
        "test_pulling_with_a_filter": OFFSETS,
        "test_pulling_by_properties": OFFSETS,
    },
    "limits": {
        "test_a_topic_limits_the_size_of_its_messages": LIMITS,
        "test_a_backlog_without_readers_has_no_limit": OFFSETS,
        "test_a_topic_is_full_when_its_slowest_group_is_too_far_behind": LIMITS,
        "test_a_backlog_counts_as_it_is_before_the_batch": LIMITS,
        "test_a_full_topic_does_not_harm_its_neighbours": LIMITS,
        "test_a_pop_gives_what_is_left_of_the_messages_in_flight": LIMITS,
        "test_a_pop_beyond_the_messages_in_flight_is_refused_at_once": LIMITS,
        "test_messages_in_flight_are_counted_by_topic": LIMITS,
        "test_the_limit_can_be_changed": LIMITS,
        "test_a_message_that_no_record_can_hold_is_refused_alone": OFFSETS,
    },
    "pop": {
        "test_a_long_poll_is_woken_by_an_expiry": LEASE,
        "test_where_a_group_begins": TIME,
        "test_latest_counts_from_the_making_of_the_group": FROM_MEMORY,
        "test_queues_that_come_later_are_read_from_their_beginning": ROUTE_CACHE,
        "test_a_small_pop_passes_over_what_is_spent": LEASE,
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
            "test_handles_given_out_before_are_void",
            "test_attempts_begin_anew",
            "test_one_queue_alone_is_reset",
            "test_a_queue_of_a_topic_that_was_never_read",
            "test_other_groups_and_topics_stay_as_they_are",
            "test_a_long_poll_is_woken_by_a_reset",
        ),
        TIME,
    ),
    "pull": dict.fromkeys(
        (
            "test_pulling_says_where_to_go_on",
            "test_at_the_end_there_is_nothing_yet",
            "test_an_empty_queue",
            "test_pulling_touches_no_group",
            "test_a_queue_that_came_back",
            "test_what_cannot_be_pulled",
            "test_offsets_that_may_match_a_topic_filter",
        ),
        OFFSETS,
    ),
    "settling": {
        "test_what_is_acknowledged_never_comes_back": TIME,
        "test_acknowledging_twice_is_refused": LATE_SETTLING,
        "test_a_forged_handle_settles_nothing": TIME,
        "test_expiry_raises_the_attempt": TIME,
        "test_a_late_acknowledgement_counts_until_the_next_delivery": TIME,
        "test_the_request_says_how_long": LEASE,
        "test_renewing_keeps_the_handle": TIME,
        "test_renewing_after_expiry_and_before_redelivery": TIME,
        "test_what_is_suspended_was_no_attempt": TIME,
        "test_a_suspended_last_attempt_comes_again": LATE_RETURN,
        "test_releasing_gives_back_after_the_delay": LATE_RETURN,
        "test_deliveries_settle_what_their_receipt_handles_do": LATE_SETTLING,
        "test_what_may_wait_is_settled_all_the_same": TIME,
    },
    "timers": {
        "test_messages_come_in_the_order_of_their_times": TIME,
        "test_a_time_that_is_over_counts_as_none": OFFSETS,
        "test_a_long_poll_is_woken_by_it": TIME,
        "test_a_tail_gets_it": TIME,
        "test_what_is_no_time_is_refused": OFFSETS,
        "test_a_queue_that_is_gone_leaves_its_messages_to_another": TIME,
        "test_only_what_waits_can_be_recalled": TIME,
    },
    "transactions": {
        "test_one_that_is_rolled_back_never_comes": OFFSETS,
        "test_a_transaction_ends_once": OFFSETS,
        "test_a_name_may_be_used_again_when_its_transaction_has_ended": OFFSETS,
    },
}

LEFT_OUT: Final[dict[str, dict[str, str]]] = {
    "append_and_read": {"test_a_closed_tail_is_silent": NEVER_COMES},
    "fifo": {
        "test_other_message_groups_flow": BY_CHANCE,
        "test_a_name_in_another_queue_is_another_message_group": BY_CHANCE,
        "test_attempts_belong_to_their_group": BY_CHANCE,
    },
    "pop": {
        "test_pop_takes_from_all_queues": BY_CHANCE,
        "test_a_pop_that_is_cancelled_takes_nothing_along": SLOW,
    },
    "timers": {"test_before_its_time_it_is_nowhere": NEVER_COMES},
}
