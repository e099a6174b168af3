"""rocketmq-python-client, told by lines of JSON what to do.  Run as a program: the wheel and our stubs cannot share a
process.

In: [number, verb, arguments].  Out: {answer, result|error, code} or {pushed: handle, message}.
"""

from __future__ import annotations

import base64
import itertools
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from rocketmq import (  # type: ignore[import-untyped]
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    LitePushConsumer,
    Message,
    MessageListener,
    Producer,
    PushConsumer,
    SimpleConsumer,
    TransactionChecker,
    TransactionResolution,
)
from rocketmq.grpc_protocol import FilterType  # type: ignore[import-untyped]

RESOLUTIONS = {
    "commit": TransactionResolution.COMMIT,
    "rollback": TransactionResolution.ROLLBACK,
    "unknown": TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED,
}


class Host:
    def __init__(self, said: dict[str, Any]) -> None:
        credentials = Credentials(said.get("access_key", ""), said.get("secret", ""))
        given = {} if said.get("as_published") else {"request_timeout": 10}
        self._configuration = ClientConfiguration(said["endpoints"], credentials, said.get("namespace", ""), **given)
        self._tls = bool(said.get("root_certificates"))
        if self._tls:
            with open(said["root_certificates"], "rb") as file:
                roots = file.read()
            plain = grpc.ssl_channel_credentials
            grpc.ssl_channel_credentials = lambda *args, **others: plain(roots)
        self._handles = itertools.count(1)
        self._clients: dict[int, Any] = {}
        self._messages: dict[int, Any] = {}
        self._saying = threading.Lock()

    def say(self, value: dict[str, Any]) -> None:
        with self._saying:
            sys.stdout.write(json.dumps(value) + "\n")
            sys.stdout.flush()

    def _keep(self, client: Any) -> int:
        client.startup()
        handle = next(self._handles)
        self._clients[handle] = client
        return handle

    def _message(self, message: Any) -> dict[str, Any]:
        token = next(self._handles)
        self._messages[token] = message
        return {
            "token": token,
            "body": base64.b64encode(message.body).decode(),
            "topic": message.topic,
            "tag": message.tag or "",
            "keys": sorted(message.keys or ()),
            "properties": dict(message.properties),
            "group": message.message_group or "",
            "lite": message.lite_topic or "",
            "id": message.message_id,
            "attempt": message.delivery_attempt,
            "corrupted": message.corrupted,
        }

    # -- verbs -------------------------------------------------------------------------------------------------------

    def producer(self, topics: list[str], resolution: str = "unknown") -> int:
        host = self

        class Checker(TransactionChecker):  # type: ignore[misc]
            def check(self, message: Any) -> Any:
                host.say({"checked": message.message_id})
                return RESOLUTIONS[resolution]

        return self._keep(Producer(self._configuration, topics, Checker(), tls_enable=self._tls))

    def send(self, client: int, end: str = "", **said: Any) -> dict[str, Any]:
        message = Message()
        message.topic = said["topic"]
        message.body = base64.b64decode(said["body"])
        if said.get("tag"):
            message.tag = said["tag"]
        if said.get("keys"):
            message.keys = said["keys"][0]
        if said.get("group"):
            message.message_group = said["group"]
        if said.get("deliver_at"):
            message.delivery_timestamp = said["deliver_at"]
        if said.get("lite"):
            message.lite_topic = said["lite"]
        if said.get("priority") is not None:
            message.priority = said["priority"]
        for name, value in said.get("properties", {}).items():
            message.add_property(name, value)
        producer = self._clients[client]
        if not end:
            receipt = producer.send(message)
        else:
            transaction = producer.begin_transaction()
            receipt = producer.send(message, transaction)
            if end in ("commit", "rollback"):
                getattr(transaction, end)()
        return {"id": receipt.message_id, "recall": receipt.recall_handle, "transaction": receipt.transaction_id}

    def recall(self, client: int, topic: str, handle: str) -> str:
        return str(self._clients[client].recall_message(topic, handle))

    def _wanted(self, subscriptions: dict[str, list[str]]) -> dict[str, Any]:
        return {
            topic: FilterExpression(text, FilterType.SQL if kind == "sql" else FilterType.TAG)
            for topic, (kind, text) in subscriptions.items()
        }

    def simple(self, group: str, subscriptions: dict[str, list[str]], wait: int = 5) -> int:
        wanted = self._wanted(subscriptions)
        return self._keep(SimpleConsumer(self._configuration, group, wanted, wait, tls_enable=self._tls))

    def receive(self, client: int, count: int = 32, invisible: int = 30) -> list[dict[str, Any]]:
        return [self._message(message) for message in self._clients[client].receive(count, invisible) or []]

    def ack(self, client: int, token: int) -> None:
        self._clients[client].ack(self._messages[token])

    def change(self, client: int, token: int, seconds: int) -> None:
        self._clients[client].change_invisible_duration(self._messages[token], seconds)

    def _listener(self, busy: float, failures: int) -> tuple[Any, list[int]]:
        host, handle = self, [0]

        class Listener(MessageListener):  # type: ignore[misc]
            def consume(self, message: Any) -> Any:
                host.say({"pushed": handle[0], "message": host._message(message)})
                if message.delivery_attempt <= failures:
                    return ConsumeResult.FAILURE
                time.sleep(busy)
                host.say({"pushed": handle[0], "done": message.message_id})
                return ConsumeResult.SUCCESS

        return Listener(), handle

    def push(
        self, group: str, subscriptions: dict[str, list[str]], busy: float = 0, failures: int = 0, threads: int = 20
    ) -> int:
        listener, handle = self._listener(busy, failures)
        handle[0] = next(self._handles)
        wanted = self._wanted(subscriptions)
        client = PushConsumer(
            self._configuration, group, listener, wanted, consumption_thread_count=threads, tls_enable=self._tls
        )
        client.startup()
        self._clients[handle[0]] = client
        return handle[0]

    def lite_push(self, group: str, topic: str, lite_topics: list[str]) -> int:
        listener, handle = self._listener(0, 0)
        handle[0] = next(self._handles)
        client = LitePushConsumer(self._configuration, group, topic, listener, tls_enable=self._tls)
        client.startup()
        for name in lite_topics:
            client.subscribe_lite(name)
        self._clients[handle[0]] = client
        return handle[0]

    def unsubscribe_lite(self, client: int, lite_topic: str) -> None:
        self._clients[client].unsubscribe_lite(lite_topic)

    def shutdown(self, client: int) -> None:
        self._clients.pop(client).shutdown()

    def answer(self, line: str) -> None:
        number, verb, given = json.loads(line)
        try:
            self.say({"answer": number, "result": getattr(self, verb)(**given)})
        except Exception as error:
            said = {"answer": number, "error": f"{type(error).__name__}: {error}", "code": getattr(error, "code", None)}
            self.say({**said, "code": said["code"] if isinstance(said["code"], int) else None})


def main() -> None:
    host = Host(json.loads(sys.argv[1]))
    with ThreadPoolExecutor(16) as pool:
        for line in sys.stdin:
            pool.submit(host.answer, line)


if __name__ == "__main__":
    main()
