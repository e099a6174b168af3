"""Health, readiness and metrics of this gateway, for probes and Prometheus."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import UNSET, UnsetType
from prometheus_client import CONTENT_TYPE_LATEST

from entrepot.domain.access.model import Action
from entrepot.domain.background import background
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.messaging.readiness import reason_unready
from entrepot.gateway.operations.row.operation import Noun
from entrepot.gateway.operations.row.rights import cluster, open_by
from entrepot.gateway.operations.row.shapes import Part, Pieces, one_of, shown_as

if TYPE_CHECKING:
    from entrepot.domain.ports import Store

_OK: Final = "ok"
_HEALTH: Final = open_by("open_health", cluster(Action.GET))
_METRICS: Final = open_by("open_metrics", cluster(Action.GET))
Text = Callable[[], Awaitable[list[bytes]]]


class HealthShown(Part, frozen=True):
    status: Annotated[str, one_of((_OK, "damaged", "degraded"))]
    problems: list[str] | UnsetType = UNSET


class ReadinessShown(Part, frozen=True):
    status: Annotated[str, one_of((_OK,))]


shown_as(HealthShown(_OK, ["a record of the log is corrupted"]))
shown_as(ReadinessShown(_OK))

HEALTH: Final = Noun("health", "", prefix="")


class Health:
    """The operations of health.  `metrics`: all of them, in pieces of Prometheus' text format; `rabbitmq`,
    `rabbitmq_objects`: those by RabbitMQ's names, in sums and by object."""

    def __init__(
        self, store: Store, is_ready: Callable[[], bool], metrics: Text, rabbitmq: Text, rabbitmq_objects: Text
    ) -> None:
        self._store, self._is_ready, self._metrics = store, is_ready, metrics
        self._rabbitmq, self._rabbitmq_objects = rabbitmq, rabbitmq_objects

    @HEALTH.get(
        "/healthz",
        "getHealth",
        "Check that the process lives and its store works",
        _HEALTH,
        outcome="It lives; what is damaged or fails is named",
    )
    async def healthz(self) -> HealthShown:
        condition = self._store.condition
        if condition.failure is not None:
            raise condition.failure
        if condition.damage:  # stay alive: a restart would not repair it
            return HealthShown("damaged", condition.damage)
        failing = background().failing
        if failing:  # it is begun again and again; a restart might help, and is not for a probe to decide
            return HealthShown("degraded", [f"{work}: {reason}" for work, reason in failing.items()])
        return HealthShown(_OK)

    @HEALTH.get("/readyz", "getReadiness", "Check that requests are accepted", _HEALTH, outcome="Requests are taken")
    async def readyz(self) -> ReadinessShown:
        if self._store.condition.failure is not None:
            raise self._store.condition.failure
        reason = reason_unready(self._store, self._is_ready)
        if reason:
            raise EntrepotError(Code.UNAVAILABLE, f"not ready: {reason}")
        return ReadinessShown(_OK)

    @HEALTH.get(
        "/metrics",
        "getMetrics",
        "Get metrics in Prometheus' text format",
        _METRICS,
        outcome="Prometheus' text format",
        shows={"text/plain": "entrepot_messages_stored_total 12.0\n"},
    )
    async def metrics(self) -> Pieces:
        return _pieces(await self._metrics())

    @HEALTH.get(
        "/metrics/rabbitmq",
        "getRabbitMqMetrics",
        "Get metrics of AMQP by RabbitMQ's names, summed up",
        _METRICS,
        outcome="Prometheus' text format",
        shows={"text/plain": "rabbitmq_connections 12.0\n"},
    )
    async def rabbitmq(self) -> Pieces:
        return _pieces(await self._rabbitmq())

    @HEALTH.get(
        "/metrics/rabbitmq/per-object",
        "getRabbitMqMetricsByObject",
        "Get metrics of AMQP by RabbitMQ's names, of each queue, channel and connection",
        _METRICS,
        outcome="Prometheus' text format",
        shows={"text/plain": 'rabbitmq_queue_messages_ready{queue="jobs",vhost="/"} 3.0\n'},
    )
    async def rabbitmq_objects(self) -> Pieces:
        return _pieces(await self._rabbitmq_objects())


def _pieces(text: list[bytes]) -> Pieces:
    return Pieces(_turns(text), CONTENT_TYPE_LATEST, {"content-length": str(sum(map(len, text)))})


async def _turns(pieces: list[bytes]) -> AsyncIterator[bytes]:
    """The pieces of an answer, each sent once the one before has left the buffer."""
    for piece in pieces:
        if piece:
            yield piece
