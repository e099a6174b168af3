"""The cost of grpc.aio itself: a server with empty answers to every call of RocketMQ's service.

Run it with `python -m benchmarks.bare_grpc PORT`. The messages for receives are made once.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import uvloop

from entrepot.protocols.rocketmq import v2_pb2 as v2

SERVICE = "apache.rocketmq.v2.MessagingService"
OK = v2.Status(code=v2.OK, message="OK")
BODY = b"x" * 200
MESSAGES = 32


def handed_out() -> list[v2.ReceiveMessageResponse]:
    """An answer to a receive, as long as ours."""
    system = v2.SystemProperties(
        message_id="01" + "A" * 32,
        receipt_handle="h" * 120,
        body_digest=v2.Digest(type=v2.MD5, checksum="A" * 32),
        body_encoding=v2.IDENTITY,
        message_type=v2.NORMAL,
        delivery_attempt=1,
        queue_offset=1,
    )
    for stamp in (system.born_timestamp, system.store_timestamp):
        stamp.GetCurrentTime()
    message = v2.Message(topic=v2.Resource(name="bench"), body=BODY, system_properties=system)
    answers = [v2.ReceiveMessageResponse(message=message)] * MESSAGES
    last = v2.ReceiveMessageResponse()
    last.delivery_timestamp.GetCurrentTime()
    return [v2.ReceiveMessageResponse(status=OK), *answers, last]


async def serve(port: int) -> None:
    """Serve until killed."""
    answers = handed_out()

    async def send(question: v2.SendMessageRequest, context: Any) -> v2.SendMessageResponse:
        entries = [v2.SendResultEntry(status=OK, message_id="01" + "A" * 32)] * len(question.messages)
        return v2.SendMessageResponse(status=OK, entries=entries)

    async def receive(question: v2.ReceiveMessageRequest, context: Any) -> AsyncIterator[v2.ReceiveMessageResponse]:
        for answer in answers:
            yield answer

    async def ack(question: v2.AckMessageRequest, context: Any) -> v2.AckMessageResponse:
        entries = [v2.AckMessageResultEntry(status=OK, receipt_handle=each.receipt_handle) for each in question.entries]
        return v2.AckMessageResponse(status=OK, entries=entries)

    def unary(work: Any, question: Any, answer: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(work, question.FromString, answer.SerializeToString)

    methods = {
        "SendMessage": unary(send, v2.SendMessageRequest, v2.SendMessageResponse),
        "AckMessage": unary(ack, v2.AckMessageRequest, v2.AckMessageResponse),
        "ReceiveMessage": grpc.unary_stream_rpc_method_handler(
            receive, v2.ReceiveMessageRequest.FromString, v2.ReceiveMessageResponse.SerializeToString
        ),
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
