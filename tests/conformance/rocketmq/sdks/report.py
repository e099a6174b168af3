"""The part of docs/conformance.md on RocketMQ's SDKs: what each does at our door and at RocketMQ's proxy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.conformance.rocketmq.kept import OURS, THEIRS
from tests.conformance.rocketmq.sdks.capabilities import CAPABILITIES
from tests.conformance.rocketmq.sdks.playing import SDKS, Outcome, Outcomes, kept
from tests.conformance.rocketmq.sdks.reasons import REASONS

_HEAD: Final = """
### SDKs, unchanged

One list (`tests/conformance/rocketmq/sdks`) is played by published SDKs with their own settings, at our door and at
Apache RocketMQ's proxy 5.5.0 in cluster mode. Those of Java and Go speak TLS by themselves, and do so at both. A cell
is of both servers if it names none; `-` is not in the SDK. Outcomes are kept; the interop tier plays the list again.
`python -m tests.conformance.rocketmq.sdks.run java` plays it by one SDK, keeps the outcomes and prints them: what
passed, what the SDK has not, and what differs.
"""
_HERE: Final = "here"
_THERE: Final = "at the proxy"


def lines() -> Iterator[str]:
    """The section, without a run."""
    yield _HEAD
    outcomes = kept()
    yield f"| | {' | '.join(language.capitalize() for language in SDKS)} |\n|---|{'---|' * len(SDKS)}"
    for capability in CAPABILITIES:
        yield f"| {capability} | {' | '.join(_cell(outcomes, language, capability) for language in SDKS)} |"
    yield ""
    for reason in REASONS:
        where = _THERE if reason.servers == (THEIRS,) else _HERE if reason.servers == (OURS,) else "anywhere"
        yield f"- {reason.language.capitalize()}, {where}: {'; '.join(reason.capabilities)}. {reason.why}"
    yield (
        "- Python, at the proxy: a first receive that comes before the client's settings is refused, and succeeds when "
        "it is tried again, as the list does. Here it is answered."
    )


def _cell(outcomes: Outcomes, language: str, capability: str) -> str:
    ours, theirs = (outcomes[language][name][capability] for name in (OURS, THEIRS))
    if ours is theirs:
        return "-" if ours is Outcome.MISSING else ours
    return f"{ours} {_HERE}, {theirs} {_THERE}"
