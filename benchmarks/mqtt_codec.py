"""Microseconds per packet of the MQTT codec: `python -m benchmarks.mqtt_codec`.

QoS 1 PUBLISH with a topic of 26 bytes, decoded from chunks of 64 KiB; the best of several rounds.
"""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable
from typing import Final

from entrepot.protocols.mqtt.decoder import Decoder
from entrepot.protocols.mqtt.encoder import PUBACK_WORD, encode, encode_words, publish_template
from entrepot.protocols.mqtt.packets import Publish
from entrepot.protocols.mqtt.properties import EMPTY, Properties, PropertyId

PACKETS: Final = 20_000
TOPICS: Final = 1_000
CHUNK: Final = 64 * 1024
ROUNDS: Final = 9
USER_PROPERTIES: Final[Properties] = {
    PropertyId.CONTENT_TYPE: "application/json",
    PropertyId.USER_PROPERTY: [("tenant", "blue"), ("trace", "0123456789abcdef")],
}


def topic(number: int) -> str:
    return f"site/{number % TOPICS:04}/line/temperature"


def chunks_of(stream: bytes) -> list[bytes]:
    return [stream[pos : pos + CHUNK] for pos in range(0, len(stream), CHUNK)]


def decode_us(stream: bytes, version: int) -> float:
    chunks = chunks_of(stream)
    best = float("inf")
    for _ in range(ROUNDS):
        decoder, count = Decoder(1 << 20, version), 0
        start = time.perf_counter()
        for chunk in chunks:
            count += len(decoder.feed(chunk))
        best = min(best, time.perf_counter() - start)
        assert count == PACKETS
        assert decoder.error is None
    return best / PACKETS * 1e6


def call_us(function: Callable[[], object]) -> float:
    return min(timeit.repeat(function, number=PACKETS, repeat=ROUNDS)) / PACKETS * 1e6


def publishes(size: int, version: int, properties: Properties = EMPTY) -> bytes:
    return b"".join(
        encode(Publish(topic(n), bytes(size), 1, n % 65_535 + 1, properties=properties), version)
        for n in range(PACKETS)
    )


def main() -> None:
    assert len(topic(0)) == 26
    for version in (4, 5):
        for size in (100, 200):
            print(f"decode PUBLISH v{version}, {size} B       {decode_us(publishes(size, version), version):6.3f} us")
    print(f"decode PUBLISH v5, 3 properties {decode_us(publishes(100, 5, USER_PROPERTIES), 5):6.3f} us")
    print(f"decode PUBACK                   {decode_us(encode_words([PUBACK_WORD | 7] * PACKETS), 5):6.3f} us")
    name, payload, template = topic(0), bytes(100), publish_template(topic(0), bytes(100), 1)
    print(f"encode PUBLISH v5, 100 B        {call_us(lambda: encode(Publish(name, payload, 1, 7), 5)):6.3f} us")
    print(f"encode from a template          {call_us(lambda: template.packet(7)):6.3f} us")
    words = [PUBACK_WORD | number for number in range(1, 101)]
    print(f"encode PUBACK, 100 at once      {call_us(lambda: encode_words(words)) / len(words):6.3f} us each")


if __name__ == "__main__":
    main()
