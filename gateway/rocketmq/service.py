"""RocketMqService: the published service, each call by its name.

Invariants: every error is in the status of an answer, and the gRPC status is OK. An unknown call is the transport's
UNIMPLEMENTED, bytes that are not a request are INVALID_ARGUMENT. A caller is authenticated before its call is read.

ADR 28: RocketMQ's clients have no session here.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

import structlog
from google.protobuf.message import DecodeError

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.rocketmq.caller import LANGUAGE, VERSION, Caller, Write, header
from entrepot.gateway.rocketmq.frontend import RocketMqFrontend
from entrepot.gateway.rocketmq.grpc.call import Call, CallOverError, Conversing, Method, Streamed, Unary
from entrepot.gateway.rocketmq.holding import Holding
from entrepot.gateway.rocketmq.lite import LiteSubscriptions
from entrepot.gateway.rocketmq.offsets import Offsets
from entrepot.gateway.rocketmq.receiving import Receiving
from entrepot.gateway.rocketmq.routes import Routes
from entrepot.gateway.rocketmq.sending import Sending
from entrepot.gateway.rocketmq.telemetry import UNDECODABLE, Telemetry, UndecodableError
from entrepot.gateway.rocketmq.transactions import Transactions
from entrepot.protocols.grpc.status import Status
from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.errors import status_of

SERVICE: Final = "apache.rocketmq.v2.MessagingService"
SETTLE_SECONDS: Final = 5.0
OF_SDKS: Final = frozenset({"QueryRoute"})
"""Calls whose answer depends on the SDK that asks."""

Asked = Callable[[Any, Caller], Awaitable[Any]]
Work = Callable[[Any, Caller, Write], Awaitable[None]]

log = structlog.get_logger(__name__)


class RocketMqService:
    """All calls over one frontend."""

    def __init__(self, frontend: RocketMqFrontend) -> None:
        self.frontend = frontend
        self.holding = Holding(frontend)
        self._lite = LiteSubscriptions(frontend)
        self._telemetry = Telemetry(frontend, self.holding, self._lite)
        self._transactions = Transactions(frontend, self._telemetry)
        self._routes = Routes(frontend)
        self._sending = Sending(frontend)
        self.send_test_message = self._sending.send_test_message
        self._receiving = Receiving(frontend, self.holding, self._lite)
        self._offsets = Offsets(frontend)
        self.clients, self.disconnect = self._telemetry.clients, self._telemetry.disconnect

    async def start(self) -> None:
        """Start the background work: renewing held messages, checking transactions."""
        await self.holding.start()
        self._lite.start()
        self._transactions.start()

    async def close(self) -> None:
        """Stop the background work."""
        self._transactions.close()
        self._lite.close()
        with contextlib.suppress(EntrepotError):
            await self.holding.close()
        await self.frontend.settle(SETTLE_SECONDS)

    def methods(self) -> dict[bytes, Method]:
        """The methods for a gRPC server, by their paths."""
        streamed: dict[str, tuple[Any, Any, Work]] = {
            "ReceiveMessage": (v2.ReceiveMessageRequest, v2.ReceiveMessageResponse, self._receiving.receive),
            "PullMessage": (v2.PullMessageRequest, v2.PullMessageResponse, self._offsets.pull),
        }
        methods: dict[str, Method] = {
            name: Unary(_decoder(question), self._unary(name, answer, work), answer.SerializeToString)
            for name, (question, answer, work) in self._unary_calls().items()
        }
        for name, (question, answer, work) in streamed.items():
            methods[name] = Streamed(_decoder(question), self._stream(name, answer, work), answer.SerializeToString)
        methods["Telemetry"] = Conversing(
            _decoder(v2.TelemetryCommand), self._converse, v2.TelemetryCommand.SerializeToString
        )
        return {f"/{SERVICE}/{name}".encode(): method for name, method in methods.items()}

    def _unary_calls(self) -> dict[str, tuple[Any, Any, Asked]]:
        """Calls with one answer: request type, answer type, and implementation."""
        return {
            "QueryRoute": (v2.QueryRouteRequest, v2.QueryRouteResponse, self._routes.query_route),
            "QueryAssignment": (v2.QueryAssignmentRequest, v2.QueryAssignmentResponse, self._routes.query_assignment),
            "Heartbeat": (v2.HeartbeatRequest, v2.HeartbeatResponse, self._telemetry.heartbeat),
            "NotifyClientTermination": (
                v2.NotifyClientTerminationRequest,
                v2.NotifyClientTerminationResponse,
                self._telemetry.terminate,
            ),
            "SendMessage": (v2.SendMessageRequest, v2.SendMessageResponse, self._sending.send),
            "RecallMessage": (v2.RecallMessageRequest, v2.RecallMessageResponse, self._sending.recall),
            "EndTransaction": (v2.EndTransactionRequest, v2.EndTransactionResponse, self._transactions.end),
            "AckMessage": (v2.AckMessageRequest, v2.AckMessageResponse, self._receiving.acknowledge),
            "ChangeInvisibleDuration": (
                v2.ChangeInvisibleDurationRequest,
                v2.ChangeInvisibleDurationResponse,
                self._receiving.change,
            ),
            "ForwardMessageToDeadLetterQueue": (
                v2.ForwardMessageToDeadLetterQueueRequest,
                v2.ForwardMessageToDeadLetterQueueResponse,
                self._receiving.forward,
            ),
            "UpdateOffset": (v2.UpdateOffsetRequest, v2.UpdateOffsetResponse, self._offsets.update),
            "GetOffset": (v2.GetOffsetRequest, v2.GetOffsetResponse, self._offsets.get),
            "QueryOffset": (v2.QueryOffsetRequest, v2.QueryOffsetResponse, self._offsets.query),
            "SyncLiteSubscription": (
                v2.SyncLiteSubscriptionRequest,
                v2.SyncLiteSubscriptionResponse,
                self._lite.sync,
            ),
        }

    def _unary(self, name: str, answer: Any, work: Asked) -> Callable[[Any, Call], Awaitable[Any]]:
        access, counters = self.frontend.access, self.frontend.counters

        async def serve(question: Any, call: Call) -> Any:
            counters.calls += 1
            if question is UNDECODABLE:
                counters.refused += 1
                raise _undecodable(name, call)
            try:
                caller = await access.caller(call)
                if name in OF_SDKS:
                    language, version = header(call.fields, LANGUAGE), header(call.fields, VERSION)
                    caller = replace(caller, language=language, version=version)
                return await work(question, caller)
            except EntrepotError as error:
                counters.refused += 1
                return answer(status=status_of(error.with_traceback(None)))
            except Exception as error:  # noqa: BLE001 - the boundary: whatever it was, the client gets an answer
                return answer(status=status_of(_fault(name, error)))

        return serve

    def _stream(self, name: str, answer: Any, work: Work) -> Callable[[Any, Call], Awaitable[None]]:
        access, counters = self.frontend.access, self.frontend.counters

        async def serve(question: Any, call: Call) -> None:
            counters.calls += 1
            if question is UNDECODABLE:
                counters.refused += 1
                raise _undecodable(name, call)
            try:
                await work(question, await access.caller(call), call.write)
            except EntrepotError as error:
                counters.refused += 1
                await call.write(answer(status=status_of(error.with_traceback(None))))
            except Exception as error:  # noqa: BLE001 - the boundary: whatever it was, the client gets an answer
                await call.write(answer(status=status_of(_fault(name, error))))

        return serve

    async def _converse(self, call: Call) -> AsyncGenerator[v2.TelemetryCommand, None]:
        try:
            caller = await self.frontend.access.caller(call)
            async with contextlib.aclosing(self._telemetry.converse(call, caller)) as commands:
                async for command in commands:
                    yield command
        except UndecodableError:
            raise _undecodable("Telemetry", call) from None
        except EntrepotError as error:
            yield v2.TelemetryCommand(status=status_of(error))
        except Exception as error:  # noqa: BLE001 - the boundary: whatever it was, the client gets an answer
            yield v2.TelemetryCommand(status=status_of(_fault("Telemetry", error)))


def _decoder(kind: Any) -> Callable[[bytes], Any]:
    """Return a decoder of requests that returns UNDECODABLE on failure."""
    parse = kind.FromString

    def decode(data: bytes) -> Any:
        try:
            return parse(data)
        except DecodeError:
            return UNDECODABLE

    return decode


def _undecodable(name: str, call: Call) -> CallOverError:
    """End the call; return the error to raise."""
    log.info("a request of a RocketMQ client cannot be decoded", seldom=name, call=name, peer=str(call.source))
    return call.abort(Status.INVALID_ARGUMENT, f"the bytes are not a request of {name}")


def _fault(name: str, error: Exception) -> EntrepotError:
    log.error("a call of a RocketMQ client failed", seldom=type(error).__name__, call=name, exc_info=error)
    return EntrepotError(Code.INTERNAL_ERROR, "the call could not be served")
