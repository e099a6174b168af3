"""mosquitto_sub and mosquitto_pub: a process for each connection."""

from __future__ import annotations

import subprocess
import threading

from tests.support.mqtt.peers.peer import Arrival, Incoming, Outgoing, Peer, Wanted
from tests.support.waiting import PATIENCE_SECONDS, wait_until

# "got", topic, payload, QoS, retain, content type, response topic, correlation, user properties, expiry, identifiers
FORMAT = "got\t%t\t%x\t%q\t%r\t%C\t%R\t%D\t%P\t%E\t%S"


def _properties(message: Outgoing, kind: str) -> list[str]:
    given = {
        "content-type": message.content_type,
        "response-topic": message.response_topic,
        "correlation-data": message.correlation.decode(),
        "message-expiry-interval": str(message.expiry_seconds or ""),
        "topic-alias": str(message.alias or ""),
    }
    flags = [flag for name, value in given.items() if value for flag in ("-D", kind, name, value)]
    return flags + [flag for name, value in message.user for flag in ("-D", kind, "user-property", name, value)]


class MosquittoPeer(Peer):
    """`version`: 4 or 5.  mosquitto_sub connects when it subscribes, and publishes are of another connection."""

    def __init__(self, port: int, arrival: Arrival, version: int) -> None:
        super().__init__()
        self._port, self._arrival, self._version = port, arrival, version
        self._granted: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None

    def _common(self) -> list[str]:
        return ["-h", "127.0.0.1", "-p", str(self._port), "-V", "mqttv5" if self._version == 5 else "mqttv311"]

    def subscribe(self, *wanted: Wanted) -> list[int]:
        assert self._process is None, "mosquitto_sub subscribes once"
        arrival = self._arrival
        command = ["stdbuf", "-oL", "mosquitto_sub", *self._common(), "-d", "-F", FORMAT, "-W", "60"]
        command += ["-i", arrival.client_id, "-q", str(wanted[0].qos)]
        if not arrival.clean:
            command.append("-c")
        if arrival.expiry_seconds:
            command += ["-x", str(arrival.expiry_seconds)]
        if arrival.receive_maximum:
            command += ["-D", "connect", "receive-maximum", str(arrival.receive_maximum)]
        if arrival.will is not None:
            will = arrival.will
            command += [
                "--will-topic",
                will.topic,
                "--will-payload",
                will.payload.decode(),
                "--will-qos",
                str(will.qos),
            ]
            if arrival.will_delay_seconds:
                command += ["-D", "will", "will-delay-interval", str(arrival.will_delay_seconds)]
        if wanted[0].identifier:
            command += ["-D", "subscribe", "subscription-identifier", str(wanted[0].identifier)]
        if wanted[0].retain_as_published:
            command.append("--retain-as-published")
        command += [flag for each in wanted for flag in ("-t", each.filter)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()
        wait_until(lambda: len(self._granted) >= len(wanted), "SUBACK")
        return list(self._granted)

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(b"got\t"):
                self.received.append(_incoming(line.rstrip(b"\n").decode()))
            elif line.startswith(b"Subscribed "):
                self._granted += [int(code) for code in line.rpartition(b": ")[2].split(b",")]

    def publish(self, *messages: Outgoing) -> None:
        for each in messages:
            command = ["mosquitto_pub", *self._common(), "-t", each.topic, "-q", str(each.qos)]
            command.append("-s" if each.payload else "-n")
            command += ["-r"] if each.retain else []
            command += _properties(each, "publish")
            done = subprocess.run(
                command, input=each.payload, capture_output=True, timeout=PATIENCE_SECONDS, check=False
            )
            assert done.returncode == 0 and not done.stderr, done.stderr

    def unsubscribe(self, topic_filter: str) -> None:
        raise NotImplementedError("mosquitto_sub unsubscribes only as it connects")

    def leave(self) -> None:
        self._end(is_clean=True)

    def cut(self) -> None:
        self._end(is_clean=False)

    def _end(self, *, is_clean: bool) -> None:
        if self._process is None:
            return
        if is_clean:
            self._process.terminate()  # it sends DISCONNECT; in version 5 with the reason that wants the will
        else:
            self._process.kill()
        self._process.wait(PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()


def _incoming(line: str) -> Incoming:
    _, topic, payload, qos, retain, content, response, correlation, user, expiry, identifiers = line.split("\t")
    pairs = tuple((name, value) for name, _, value in (pair.partition(":") for pair in user.split(" ") if pair))
    return Incoming(
        topic,
        bytes.fromhex(payload),
        int(qos),
        retain == "1",
        content,
        response,
        correlation.encode(),
        pairs,
        int(expiry or 0),
        tuple(int(each) for each in identifiers.replace(",", " ").split()),
    )
