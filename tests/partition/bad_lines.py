"""A device through which packets come late, in another order, or not at all, for kernels without netem.

python -m tests.partition.bad_lines DEVICE DELAY_MS JITTER_MS LOSS SEED

The kernel gives it packets, and takes them back later: whoever routes through the device has a bad line.  The device
is there as long as the process.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import select
import struct
import sys
import time
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

TUN: Final = Path("/dev/net/tun")
_TUNSETIFF: Final = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_PACKET_BYTES: Final = 65_536


class Badness(NamedTuple):
    """Of a line in each direction.  `loss`: a share of the packets."""

    delay_ms: float
    jitter_ms: float
    loss: float


def opened(device: str) -> int:
    """A descriptor of a new device, in the network namespace of this process."""
    descriptor = os.open(TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH", device.encode(), _IFF_TUN | _IFF_NO_PI))
    return descriptor


def carry(descriptor: int, badness: Badness, chance: Random) -> None:
    """Take packets and give them back, for ever."""
    waiting: list[tuple[float, int, bytes]] = []
    number = 0
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _give(descriptor, heapq.heappop(waiting)[2])
        timeout = max(0.0, waiting[0][0] - now) if waiting else None
        if not select.select([descriptor], [], [], timeout)[0]:
            continue
        packet = os.read(descriptor, _PACKET_BYTES)
        if chance.random() >= badness.loss:
            late = badness.delay_ms + chance.uniform(-badness.jitter_ms, badness.jitter_ms)
            number += 1
            heapq.heappush(waiting, (time.monotonic() + max(0.0, late) / 1000, number, packet))


def _give(descriptor: int, packet: bytes) -> None:
    try:
        os.write(descriptor, packet)
    except OSError:  # the kernel has no room, or does not like it: one more that is lost
        return


def main() -> None:
    device, delay, jitter, loss, seed = sys.argv[1:]
    descriptor = opened(device)
    print("there", flush=True)
    carry(descriptor, Badness(float(delay), float(jitter), float(loss)), Random(int(seed)))


if __name__ == "__main__":
    main()
