"""Well-known AMQP names."""

from __future__ import annotations

from typing import Final

PROTOCOL: Final = "amqp"
REPLY_TO_QUEUE: Final = "amq.rabbitmq.reply-to"
"""The pseudo-queue of direct reply-to."""
SERVER_NAMED: Final = "amq.gen-"
CONSUMER_NAMED: Final = "amq.ctag-"
