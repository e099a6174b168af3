"""EndTransaction, and checks with producers of transactions that they have left open."""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

import structlog

from entrepot.domain.errors import EntrepotError, raise_if
from entrepot.domain.message import StoredMessage, SystemProperty
from entrepot.domain.transaction import TransactionEnd
from entrepot.gateway.rocketmq.caller import Caller
from entrepot.gateway.rocketmq.frontend import RocketMqFrontend
from entrepot.gateway.rocketmq.names import NAMESPACES, topic_of
from entrepot.gateway.rocketmq.telemetry import Telemetry
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.delivered import delivered
from entrepot.protocols.rocketmq.errors import OK_STATUS, WireError

PART: Final = "rocketmq transactions"
TRANSACTION_ID_BYTES: Final = 16
MAX_CHECKS: Final = 100
"""Transactions that are checked at one look."""

log = structlog.get_logger(__name__)


class Transactions:
    """The transactions, which belong to no gateway: any may end them, and any of the topic's producers is asked."""

    def __init__(self, frontend: RocketMqFrontend, telemetry: Telemetry) -> None:
        self._frontend, self._telemetry = frontend, telemetry
        self._checking: asyncio.Task[None] | None = None
        self._store_host = "{}:{}".format(*frontend.address)

    def start(self) -> None:
        """Begin to check."""
        self._checking = self._frontend.tasks.spawn(self._check())

    def close(self) -> None:
        """Stop checking."""
        if self._checking is not None:
            self._checking.cancel()

    async def end(self, question: v2.EndTransactionRequest, caller: Caller) -> v2.EndTransactionResponse:
        """Commit or roll back; durable when this is answered."""
        topic = topic_of(question.topic)
        self._frontend.access.check_publish(caller, topic, _sub_topic_in(question.transaction_id))
        if not question.transaction_id:
            raise WireError(v2.INVALID_TRANSACTION_ID, "the transaction has no id")
        if question.resolution not in v2.TransactionResolution.values():
            raise WireError(v2.BAD_REQUEST, f"there is no transaction resolution {question.resolution}")
        if question.resolution == v2.TRANSACTION_RESOLUTION_UNSPECIFIED:
            # the producer does not know yet: it is asked again later
            return v2.EndTransactionResponse(status=OK_STATUS)
        end = TransactionEnd(topic, question.transaction_id, question.resolution == v2.COMMIT)
        raise_if((await self._frontend.store.transactions.end_transactions([end]))[0])
        return v2.EndTransactionResponse(status=OK_STATUS)

    async def _check(self) -> None:
        while True:
            await asyncio.sleep(self._frontend.settings.transaction_check_seconds)
            topics = sorted(self._telemetry.published_topics())
            if not topics:
                continue
            try:
                halves = await self._frontend.store.transactions.take_checks(topics, MAX_CHECKS)
            except EntrepotError as error:  # a broker is away, or its store is gone: the next look may find it
                log.warning("could not check transactions; will retry", problem=error.message)
                continue
            except Exception:  # a fault of our own: the other transactions are checked all the same
                log.exception("could not check transactions; will retry")
                continue
            incidents = self._frontend.sender.incidents
            self._frontend.counters.checks += sum(incidents.encoded(PART, halves, self._ask, lambda half: half))

    def _ask(self, half: StoredMessage) -> int:
        """Ask a producer after its transaction; return the number of those asked."""
        transaction_id = half.system_text(SystemProperty.TRANSACTION_ID) or ""
        message = delivered(half, NAMESPACES)
        message.system_properties.MergeFrom(v2.SystemProperties(delivery_attempt=1, store_host=self._store_host))
        command = v2.RecoverOrphanedTransactionCommand(message=message, transaction_id=transaction_id)
        told = v2.TelemetryCommand(status=OK_STATUS, recover_orphaned_transaction_command=command)
        return self._telemetry.tell_a_producer(half.topic, half.sub_topic, told)


def transaction_id_for(sub_topic: str, plain: str) -> str:
    """Return a new id, which has the sub-topic if that is not the topic. The end of the transaction needs the right to
    publish to it, and a changed id belongs to no transaction."""
    token = secrets.token_hex(TRANSACTION_ID_BYTES)
    return token if sub_topic == plain else f"{token}/{sub_topic}"


def _sub_topic_in(transaction_id: str) -> str:
    return transaction_id.partition("/")[2]
