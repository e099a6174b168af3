"""The RocketMQ part of docs/conformance.md: what was compared with RocketMQ's proxy, and what differs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.conformance.rocketmq.all_conversations import CONVERSATIONS
from tests.conformance.rocketmq.differences import DIFFERENCES, Difference
from tests.conformance.rocketmq.kept import OURS, THEIRS, kept
from tests.conformance.rocketmq.sdks import report as sdks

_HEAD: Final = """
## RocketMQ: beside its proxy

One list of conversations (`tests/conformance/rocketmq`) is played at our door and at Apache RocketMQ's proxy 5.5.0 in
cluster mode, over gRPC, and the answers are compared field by field. Masked are texts of statuses, times, ids, handles,
addresses and places in queues: only whether they are there counts. Both servers' answers are kept; the tests play ours
again, the interop tier the proxy's, too (`python -m tests.conformance.rocketmq.run entrepot` and `proxy` record them).
"""

_BODIES: Final = (
    "- A body that a remoting producer of a RocketMQ cluster compressed is delivered as it was before. The proxy hands "
    "it on as it is and labels it GZIP, be it zlib, LZ4 or zstd. Test: `test_compressed_bodies`."
)


def lines() -> Iterator[str]:
    """The section, without a run."""
    yield _HEAD
    ours, theirs = kept(OURS), kept(THEIRS)
    everywhere = [each for each in DIFFERENCES if not each.conversations]
    named = {name for each in DIFFERENCES for name in each.conversations}
    alike = sum(ours[each.name] == theirs[each.name] for each in CONVERSATIONS)
    yield (
        f"There are {len(CONVERSATIONS)} conversations: {alike} are answered alike in each field, {len(named)} differ "
        "for a reason below, and the others in these fields alone:\n"
    )
    for each in everywhere:
        yield f"- {each.why}"
    yield "\n### What ours does better\n"
    yield _BODIES
    yield from (_line(each) for each in DIFFERENCES if each.better)
    yield "\n### What differs\n"
    yield from (_line(each) for each in DIFFERENCES if each.conversations and not each.better)
    yield from sdks.lines()


def _line(one: Difference) -> str:
    return f"- {one.why} Conversations: {'; '.join(one.conversations)}."
