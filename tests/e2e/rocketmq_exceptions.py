"""Tests of the doors that do not pass in front of Apache RocketMQ, by file and name, each with its reason.

They run and are to fail (`DIFFERENT`: one that passes is told), or do not run (`LEFT_OUT`: some would pass by chance).
"""

from __future__ import annotations

from typing import Final

ALREADY_FOLLOWED = "a subscriber that joins a queue which others follow may get what was confirmed a moment before"
OWN_TIER = "the cold tier is that of our own brokers; a cluster has one of its own"
LAST_ATTEMPT = "a dead letter counts the delivery at which it was found to be spent"

ALL: Final = "*"
"""Every test of a file."""

DIFFERENT: Final[dict[str, dict[str, str]]] = {
    "mqtt/test_mqtt_and_http": {"test_dead_letters_of_a_share_are_seen_over_http": LAST_ATTEMPT},
}

LEFT_OUT: Final[dict[str, dict[str, str]]] = {
    "test_cold_doors": {ALL: OWN_TIER},
    "mqtt/test_mqtt_order_of_subscriptions": {"test_what_was_confirmed_before": ALREADY_FOLLOWED},
}
