"""Which message types an SDK knows, by the headers that it sends."""

from __future__ import annotations

from entrepot.protocols.rocketmq import v2_pb2 as v2
from entrepot.protocols.rocketmq.known_types import knows
from tests.support.cases import cases


@cases(
    ("language", "version", "kind", "is_known"),
    [
        ("JAVA", "5.0.8", v2.LITE, False),
        ("java", "5.1.0", v2.LITE, True),
        ("JAVA", "5.1.0", v2.PRIORITY, False),
        ("JAVA", "5.2.0-SNAPSHOT", v2.PRIORITY, True),
        ("JAVA", "10.0.0", v2.PRIORITY, True),
        ("JAVA", "", v2.LITE, False),
        ("JAVA", "x" * 10_000, v2.LITE, False),
        ("JAVA", "5.0.0", v2.FIFO, True),
        ("DOTNET", "5.1.0", v2.LITE, False),
        ("DOTNET", "5.2.0-rc1", v2.LITE, True),
        ("GOLANG", "5.0.0", v2.PRIORITY, True),
        ("", "", v2.LITE, True),
    ],
)
def test_types_by_version(language: str, version: str, kind: int, is_known: bool) -> None:
    assert knows(language, version, kind) is is_known
