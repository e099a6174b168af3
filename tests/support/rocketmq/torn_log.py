"""The end of a broker's commit log, as a machine that lost its power may leave it."""

from __future__ import annotations

import random
from typing import Final

from tests.support.rocketmq.cluster import BrokerPlace, RocketMqCluster

_NOISE_BYTES: Final = 4_096
_START_OF_RECORD: Final = 8
"""The length and the magic number."""


def tear(cluster: RocketMqCluster, place: BrokerPlace, at: int, chance: random.Random) -> str:
    """Spoil a stopped broker's log from a place on, and take its checkpoint; the way in which it was done."""
    data = cluster.directory / place.process
    log = next(path for path in sorted((data / "commitlog").iterdir(), reverse=True) if int(path.name) <= at)
    way = chance.choice(("zeros", "noise", "a bad record"))
    size = log.stat().st_size
    with log.open("r+b") as file:
        file.seek(at - int(log.name))
        if way != "zeros":
            file.write(chance.randbytes(_NOISE_BYTES if way == "noise" else _START_OF_RECORD))
        if way != "a bad record":  # behind it, others are whole
            file.truncate(file.tell())
            file.truncate(size)
    for later in (path for path in (data / "commitlog").iterdir() if int(path.name) > int(log.name)):
        later.unlink()
    (data / "checkpoint").unlink(missing_ok=True)
    assert (data / "abort").exists(), "it was killed"
    return way
