"""EndTransaction, and checks with producers of transactions that they have left open.

RocketMQ's transactions belong to a producer group.  Its gRPC producers have none, so here they belong to the user that
sent the message: no other one is asked after them, or ends them.
"""

from __future__ import annotations

import asyncio
import secrets
from hashlib import blake2b
from typing import Final

import structlog

from entrepot.domain.access.model import Principal
from entrepot.domain.errors import Code, EntrepotError, raise_if
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
OWNER_BYTES: Final = 8
OWNER_MARK: Final = "."
MAX_CHECKS: Final = 100
"""Transactions that are checked at one look."""

log = structlog.get_logger(__name__)


class Transactions:
    """The transactions, which belong to no gateway: any may end them, and any of the user's producers of the topic is
    asked."""

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
        if _owner_in(question.transaction_id) not in ("", owner_of(caller.principal)):
            raise EntrepotError(Code.FORBIDDEN, "the transaction is another user's")
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
        owner = _owner_in(transaction_id)

        def may_be_asked(caller: Caller) -> bool:
            is_owner = owner in ("", owner_of(caller.principal))
            return is_owner and self._frontend.access.may_publish(caller, half.topic, half.sub_topic)

        return self._telemetry.tell_a_producer(half.topic, may_be_asked, told)


def transaction_id_for(sub_topic: str, plain: str, principal: Principal) -> str:
    """Return a new id: it has the user, and the sub-topic if that is not the topic.  The end of the transaction has to
    be that user's, with the right to publish to it.  A changed id belongs to no transaction."""
    token = f"{secrets.token_hex(TRANSACTION_ID_BYTES)}{OWNER_MARK}{owner_of(principal)}"
    return token if sub_topic == plain else f"{token}/{sub_topic}"


def owner_of(principal: Principal) -> str:
    """Return what stands for a user in ids of transactions."""
    return blake2b(principal.name.encode("utf-8", "surrogatepass"), digest_size=OWNER_BYTES).hexdigest()


def _owner_in(transaction_id: str) -> str:
    """Return the owner in an id; empty for one of an earlier version."""
    return transaction_id.partition("/")[0].partition(OWNER_MARK)[2]


def _sub_topic_in(transaction_id: str) -> str:
    return transaction_id.partition("/")[2]
