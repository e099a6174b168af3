"""The published suites: which there are, by name and version, and which of their tests are not run, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final


class Source(Enum):
    """Where a suite is published."""

    PYPI = "PyPI"
    GO = "Go"


@dataclass(frozen=True, slots=True)
class Suite:
    """`version`: of the source distribution or the package.  `package`: its name, where `name` is that of a part of it.

    `tests`: what pytest is told to run, and `quick` the same in a few seconds; names of Go tests for Go's.
    `plugin`: of `plugins/`, what names the server to the tests.  `left_out`: tests, or the beginning of their names,
    that are not run, with the reason; `tests_left_out`: how many tests these are.  `limit_seconds`: then a run is
    ended and counts as failed.  `needs_redis`: results of its tasks are kept in a redis-server that is started for it.
    `needs_management`: its tests ask RabbitMQ's management API at its usual port, 15672.
    """

    name: str
    version: str
    source: Source
    tests: tuple[str, ...]
    quick: tuple[str, ...]
    limit_seconds: int
    plugin: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)
    tests_left_out: int = 0
    needs_redis: bool = False
    needs_management: bool = False
    package: str = ""

    @property
    def distribution(self) -> str:
        """What is fetched."""
        return self.package or self.name


_BADSSL: Final = "contacts badssl.com"
_DOCKER: Final = "ends and starts its container by Docker's API"
_TOO_QUICK: Final = (
    "hangs here and passes on RabbitMQ: the client waits for an open-ok that a trace shows was sent within a "
    "millisecond; with 5 ms on the way it passes here. Presumably a race of the client's; the place in it is not found"
)
_CERTIFICATES: Final = "needs certificates that the source distribution has not"

SUITES: Final = (
    Suite(
        "aiormq",
        "7.2.4",
        Source.PYPI,
        ("tests",),
        (
            "tests/test_channel.py::test_simple",
            "tests/test_channel.py::test_ack_nack_reject",
            "tests/test_connection.py::test_open",
        ),
        limit_seconds=1500,
        plugin="server_for_aiormq",
    ),
    Suite(
        "aio_pika",
        "10.2.1",
        Source.PYPI,
        ("tests",),
        ("tests/test_master.py", "tests/test_rpc.py"),
        limit_seconds=1500,
        plugin="server_for_aio_pika",
        left_out={
            "tests/test_robust_recovery.py::test_restore_topology_and_consumers[stop_app]": _DOCKER,
            "tests/test_robust_recovery.py::test_restore_topology_and_consumers[kill]": _DOCKER,
            "tests/test_robust_recovery.py::test_pool_consumer_survives_broker_restart": _DOCKER,
        },
        tests_left_out=3,
    ),
    Suite(
        "amqp",
        "5.4.2",
        Source.PYPI,
        ("t/integration",),
        ("t/integration/test_rmq.py::test_rabbitmq_operations",),
        limit_seconds=120,
        left_out={
            "t/integration/test_rmq.py::test_connect[tls]": _CERTIFICATES,
            "t/integration/test_rmq.py::test_tls_connect_fails": _CERTIFICATES,
            "t/integration/test_rmq.py::test_tls_default_certs": _BADSSL,
            "t/integration/test_rmq.py::test_tls_no_default_certs_fails": _BADSSL,
            "t/integration/test_rmq.py::test_rabbitmq_operations::test_publish_consume[tls": _CERTIFICATES,
            "t/integration/test_rmq.py::test_rabbitmq_operations::test_publish_get[tls]": _CERTIFICATES,
            "t/integration/test_rmq.py::test_rabbitmq_operations::test_publish_get__short_int_header[tls]": (
                _CERTIFICATES
            ),
            "t/integration/test_rmq.py::test_rabbitmq_operations::test_publish_get__short_short_int_header[tls]": (
                _CERTIFICATES
            ),
        },
        tests_left_out=15,
    ),
    Suite(
        "kombu",
        "5.7.0",
        Source.PYPI,
        ("t/integration/test_py_amqp.py",),
        ("t/integration/test_py_amqp.py::test_PyAMQPBasicFunctionality",),
        limit_seconds=300,
    ),
    Suite(
        "celery",
        "5.7.0",
        Source.PYPI,
        ("t/integration/test_inspect.py", "t/integration/test_tasks.py"),
        ("t/integration/test_tasks.py::test_class_based_tasks",),
        limit_seconds=1200,
        left_out={
            "t/integration/test_tasks.py::test_tasks::test_revoked_by_headers_complex_canvas": "sleeps for minutes",
        },
        tests_left_out=1,
        needs_redis=True,
    ),
    Suite(
        "celery-canvas",
        "5.7.0",
        Source.PYPI,
        ("t/integration/test_canvas.py",),
        ("t/integration/test_canvas.py::test_chain::test_simple_chain",),
        limit_seconds=3600,
        needs_redis=True,
        package="celery",
    ),
    Suite(
        "amqp091-go",
        "1.16.0",
        Source.GO,
        (".",),
        ("TestIntegrationBasicQueueOperations|TestIntegrationConfirm",),
        limit_seconds=900,
        left_out={"TestConnectionRecoverySkipAndContinueNoInfiniteLoop": _TOO_QUICK},
        tests_left_out=1,
        needs_management=True,
    ),
)
BY_NAME: Final = {suite.name: suite for suite in SUITES}
