"""Settings: the server's answer to a client's description of itself.

They are not needed again: a gateway serves a client without having seen its settings.
"""

from __future__ import annotations

from typing import Final

from entrepot.domain.definitions.consumer_group import ConsumerGroup
from entrepot.domain.retry_policy import RetryKind
from entrepot.gateway.settings.grpc import GrpcSettings
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.names import duration

SEND_ATTEMPTS: Final = 3
FIRST_SEND_PAUSE_MS: Final = 10
LAST_SEND_PAUSE_MS: Final = 1000
SEND_PAUSE_FACTOR: Final = 2.0
RETRY_SECONDS: Final = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""RocketMQ's own waits before the next attempt, in seconds, for groups without a retry policy."""
REQUEST_TIMEOUT_MS: Final = 3000


def producer_settings(said: v2.Settings, settings: GrpcSettings) -> v2.Settings:
    """The settings of a producer, completed by this server."""
    merged = v2.Settings()
    merged.CopyFrom(said)
    merged.publishing.max_body_size = settings.max_message_bytes
    merged.publishing.validate_message_type = True
    backoff = merged.backoff_policy
    backoff.Clear()
    backoff.max_attempts = SEND_ATTEMPTS
    backoff.exponential_backoff.CopyFrom(
        v2.ExponentialBackoff(
            initial=duration(FIRST_SEND_PAUSE_MS), max=duration(LAST_SEND_PAUSE_MS), multiplier=SEND_PAUSE_FACTOR
        )
    )
    _complete(merged)
    return merged


def consumer_settings(said: v2.Settings, settings: GrpcSettings, group: ConsumerGroup) -> v2.Settings:
    """The settings of a consumer of a group, completed by this server."""
    merged = v2.Settings()
    merged.CopyFrom(said)
    subscription = merged.subscription
    subscription.fifo = group.fifo
    subscription.receive_batch_size = settings.max_receive_messages
    subscription.long_polling_timeout.CopyFrom(duration(int(settings.long_polling_seconds * 1000)))
    subscription.lite_subscription_quota = settings.lite_subscriptions
    subscription.max_lite_topic_size = settings.lite_topic_characters
    merged.backoff_policy.CopyFrom(_backoff(group))
    _complete(merged)
    return merged


def _backoff(group: ConsumerGroup) -> v2.RetryPolicy:
    policy, found = group.retry, v2.RetryPolicy(max_attempts=min(group.max_attempts, 2**31 - 1))
    if policy.kind is RetryKind.EXPONENTIAL:
        found.exponential_backoff.CopyFrom(
            v2.ExponentialBackoff(
                initial=duration(policy.initial_ms), max=duration(policy.max_ms), multiplier=policy.multiplier
            )
        )
    elif policy.kind is RetryKind.LIST:
        found.customized_backoff.next.extend(duration(delay_ms) for delay_ms in policy.delays_ms)
    else:
        found.customized_backoff.next.extend(duration(seconds * 1000) for seconds in RETRY_SECONDS)
    return found


def _complete(merged: v2.Settings) -> None:
    if not merged.HasField("request_timeout"):
        merged.request_timeout.CopyFrom(duration(REQUEST_TIMEOUT_MS))
    merged.metric.Clear()
    merged.metric.on = False
