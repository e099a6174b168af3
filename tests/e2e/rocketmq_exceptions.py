"""Tests of the doors that do not pass in front of Apache RocketMQ, by file and name, each with its reason.

One row of a test is named with its case: `test: case`.

They run and are to fail (`DIFFERENT`: one that passes is told), or do not run (`LEFT_OUT`: some would pass by chance).
"""

from __future__ import annotations

from typing import Final

ALREADY_FOLLOWED = "a subscriber that joins a queue which others follow may get what was confirmed a moment before"
OWN_TIER = "the cold tier is that of our own brokers; a cluster has one of its own"
ONLY_QUEUES = "a topic of RocketMQ has no settings but its queues, permission and type"
NO_TRACES = "a cluster does not tell which way a message took"
LISTS_NOTHING = "a cluster lists no timed and no half messages"
OWN_FIGURES = "the figures of the store are those of its own brokers"
LATE = "brokers commit, and bring back what is released, some seconds later"
ANY_QUEUE = "a broker chooses the queues of a pop, and gives 32 messages at most: one may bring less than there is"
ANY_ORDER = "messages of one request for several queues, or rejected together, come in any order"
ROUGHLY = "brokers count what is in flight as consumed: a group's lag is lower than what waits"
LATE_TOKENS = "brokers answer OK to the acknowledgement of a delivery that is over"
MADE_ANEW = "nobody tells whether a topic that was deleted and made anew is another one: a session goes on at its place"

TWO_BROKERS = "a topic has its queues at each of the brokers"
OWN_LIMITS = "the cluster's limits are lower than ours"
THREE_DAYS = "brokers keep a message for three days at most before its time"
COUNTED_LATE = "brokers tell counts a moment late: a limit of length holds a moment later, too"
RECALLS = "brokers do not say whether what is recalled was waiting"
BEHIND = "a message that is given back comes again some seconds later, behind those that wait"

ALL: Final = "*"
"""Every test of a file."""

DIFFERENT: Final[dict[str, dict[str, str]]] = {
    "test_admin_restart": {
        "test_topics_groups_and_positions_survive_a_kill": ONLY_QUEUES,
        "test_timers_and_found_messages_survive_a_kill": LISTS_NOTHING,
    },
    "http/test_http_admin_and_health": {
        "test_a_topic_from_put_to_delete": ONLY_QUEUES,
        "test_what_is_refused_is_not_counted": ONLY_QUEUES,
        "test_metrics_tell_of_the_store": OWN_FIGURES,
    },
    "test_journey_of_every_door": {
        "test_the_door_the_client_and_the_gateway_of_a_traced_topic": NO_TRACES,
        "test_by_amqp_message_id_and_what_a_consumer_gave_back": NO_TRACES,
    },
    "rocketmq/test_rocketmq_calls": {
        "test_a_route_is_where_the_client_came": TWO_BROKERS,
        "test_a_route_says_what_may_be_done": TWO_BROKERS,
        "test_limits_are_taken_and_said": OWN_LIMITS,
        "test_a_recall_handle_of_another_topic_or_none": THREE_DAYS,
    },
    "rocketmq/test_rocketmq_consuming": {
        "test_longer_and_shorter_times": LATE_TOKENS,
    },
    "http/test_http_batches": {"test_a_refusal_is_of_the_whole_batch": ONLY_QUEUES},
    "http/test_http_cli": {
        "test_topics": ONLY_QUEUES,
        "test_messages": NO_TRACES,
        "test_timers": LISTS_NOTHING,
    },
    "http/test_http_messages": dict.fromkeys(
        (
            "test_the_way_of_a_message",
            "test_a_message_that_is_not_traced",
            "test_traces_by_an_id_that_a_producer_chose",
            "test_clients_read_traces_and_do_not_write_them",
        ),
        NO_TRACES,
    ),
    "http/test_http_publish_at_once": {"test_a_refusal_of_the_store_is_told_and_the_connection_goes_on": ONLY_QUEUES},
    "http/test_http_timers": dict.fromkeys(
        (
            "test_timers_of_a_namespace",
            "test_the_next_one_is_first_and_pages_go_on",
            "test_recall",
            "test_bad_times",
            "test_a_timer_gets_another_time",
        ),
        LISTS_NOTHING,
    ),
    "http/test_http_topics_and_groups": dict.fromkeys(
        (
            "test_every_field_of_a_topic",
            "test_limits_of_a_topic_hold",
            "test_a_topic_of_the_tier",
            "test_a_topic_that_came_by_use_is_changed_like_any",
        ),
        ONLY_QUEUES,
    ),
    "http/test_http_transactions": {
        "test_pages_of_half_messages": LISTS_NOTHING,
        "test_the_command": LISTS_NOTHING,
    },
    "webhooks/test_webhook_journey": dict.fromkeys(
        (
            "test_from_publishing_through_failures_to_a_resend",
            "test_on_a_traced_topic_the_way_in_and_every_attempt_are_known",
            "test_names_that_mean_nothing_or_are_hostile",
        ),
        NO_TRACES,
    ),
}

LEFT_OUT: Final[dict[str, dict[str, str]]] = {
    "test_cold_doors": {ALL: OWN_TIER},
    "amqp/test_amqp_clients": {
        "test_script: a channel closes: all comes again, marked": BEHIND,
        "test_script: a connection is cut: all comes again, marked": BEHIND,
        "test_script: nack with requeue: at the old place, marked": BEHIND,
        "test_script: priority after requeue": BEHIND,
        "test_script: recover": BEHIND,
        "test_script: get": COUNTED_LATE,
        "test_script: max-length drops the head": COUNTED_LATE,
        "test_script: max-length-bytes drops the head": COUNTED_LATE,
    },
    "amqp/test_amqp_failover": {
        "test_who_consumes_next_begins_with_what_the_one_before_held": BEHIND,
        "test_the_next_active_consumer_begins_with_what_the_one_before_held": BEHIND,
    },
    "rocketmq/test_rocketmq_calls": {
        "test_what_is_no_unicode_is_left_out_of_a_message": ANY_QUEUE,
        "test_priorities_go_before_others": ANY_QUEUE,
        "test_a_goodbye_gives_back_what_was_held": LATE,
    },
    "rocketmq/test_rocketmq_clients": {
        "test_what_is_not_acknowledged_comes_again": LATE_TOKENS,
        "test_after_the_last_attempt_it_is_a_dead_letter": LATE,
        "test_delay_and_recall": RECALLS,
    },
    "rocketmq/test_rocketmq_consuming": {
        "test_lite_topics_that_are_added_at_the_same_time": ANY_QUEUE,
        "test_a_settlement_whose_answer_was_lost_is_answered_again": ANY_QUEUE,
        "test_what_a_consumer_is_told": LATE_TOKENS,
    },
    "rocketmq/test_rocketmq_types": {"test_a_route_tells_a_client_the_types_that_it_knows": TWO_BROKERS},
    "rocketmq/test_rocketmq_operators": {
        "test_a_disconnected_push_consumer_gives_its_messages_back": LATE,
    },
    "test_serve": {
        "test_a_publish_of_either_door_reaches_the_subscribers_of_the_other": ANY_QUEUE,
        "test_deliveries_and_acknowledgements_survive_a_kill": ANY_QUEUE,
    },
    "mqtt/test_mqtt_operators": {"test_why_a_client_gets_no_more": ANY_ORDER},
    "mqtt/test_mqtt_order_of_subscriptions": {"test_what_was_confirmed_before": ALREADY_FOLLOWED},
    "mqtt/test_mqtt_restart": {"test_confirmed_messages_survive_a_kill": ANY_QUEUE},
    "mqtt/test_mqtt_sessions": {"test_a_topic_that_was_deleted_and_made_anew": MADE_ANEW},
    "http/test_http_admin_and_health": {
        "test_progress_and_lag_are_told": LATE,
        "test_what_comes_in_and_goes_out_is_counted": ANY_QUEUE,
    },
    "http/test_http_dead_letter_reasons": {"test_dead_letters_of_one_reason_are_resent": ANY_ORDER},
    "http/test_http_dead_letters": {
        "test_some_are_tried_again": ANY_ORDER,
        "test_why_when_and_where_from": ANY_ORDER,
        "test_the_export_is_one_line_each": ANY_ORDER,
    },
    "http/test_http_event_streams": {
        "test_a_stream_begins_where_it_is_told_and_goes_on_where_it_was": ANY_ORDER,
        "test_a_consumer_gets_events_and_settles_them": ANY_QUEUE,
    },
    "http/test_http_eventgrid_client": {"test_publish_receive_acknowledge": ANY_QUEUE},
    "http/test_http_group_detail": {"test_lag_on_one_topic": LATE, "test_pages_of_queues": LATE},
    "http/test_http_members": {"test_a_stale_commit_is_refused": LATE},
    "http/test_http_messages": {
        "test_the_id_of_an_event_is_a_key": ANY_ORDER,
        "test_pages_go_on_with_their_cursor": ANY_ORDER,
        "test_what_became_of_a_message": LATE,
    },
    "http/test_http_namespaces": {"test_settling_in_a_namespace": LATE_TOKENS},
    "http/test_http_publish_and_pull": {
        "test_stale_forged_and_foreign_tokens_fail_one_by_one": LATE_TOKENS,
        "test_released_comes_back_at_once_with_a_raised_count": LATE,
        "test_batched_mode_keeps_every_event": ANY_QUEUE,
    },
    "http/test_http_timers": {"test_an_event_comes_in_its_time_and_not_before": LATE},
    "http/test_http_topics_and_groups": {"test_a_release_waits_as_the_retry_policy_says": LATE},
    "webhooks/test_webhook_list": {
        "test_a_sink_that_fails_shows_its_circuit_its_lag_and_the_next_try": ROUGHLY,
    },
    "webhooks/test_webhook_delivery": {
        "test_above_the_limit_the_oldest_waiting_events_are_dead_letters": ANY_ORDER,
    },
}
