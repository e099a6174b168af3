"""Tests of the suites that pass on RabbitMQ and not on our server, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Difference:
    """Tests of one suite, and why they fail here."""

    suite: str
    tests: tuple[str, ...]
    why: str


DIFFERENCES: Final[tuple[Difference, ...]] = (
    Difference(
        "aiormq",
        (
            "tests.test_connection::test_closing_waiter_cancellation[amqp-timeout-connection-True]",
            "tests.test_connection_futures::test_connection_close_during_publish_drain[amqp]",
        ),
        "Not steady on either server: in three more runs by themselves each failed at least once on RabbitMQ too. A "
        "race of the client's: which of its tasks hears first that it closes the connection.",
    ),
    Difference(
        "aio_pika",
        ("tests.test_memory_leak::test_leak_unclosed_channel[connect_robust]",),
        "Not steady, and the client's: are its objects collected at once? On RabbitMQ it failed with `connect`.",
    ),
)

REASONS: Final = {(one.suite, test): one.why for one in DIFFERENCES for test in one.tests}
