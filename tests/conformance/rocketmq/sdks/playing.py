"""Playing a capability by a client at a server, and the outcomes that are kept."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Final

from tests.conformance.rocketmq.sdks.capabilities import CAPABILITIES
from tests.conformance.rocketmq.sdks.stage import Server, Stage
from tests.support.rocketmq.peers.hosts import HOSTS
from tests.support.rocketmq.peers.peer import NotInClientError, RefusedError, RocketMqPeer

SDKS: Final = tuple(HOSTS)
"""By language."""
_FILE: Final = Path(__file__).with_name("outcomes.json")


class Outcome(StrEnum):
    """What became of a capability."""

    PASSED = "passed"
    MISSING = "not in the SDK"
    FAILED = "failed"


Outcomes = dict[str, dict[str, dict[str, Outcome]]]
"""By language, server and capability."""


def play(language: str, capability: str, server: Server) -> tuple[Outcome, str]:
    """Play it by a client of its own, with the client's default settings; the outcome, and how it failed."""
    endpoints = HOSTS[language].join(server.endpoints)
    with RocketMqPeer(endpoints, language, as_published=True) as peer:
        try:
            CAPABILITIES[capability](Stage(peer, server))
        except NotInClientError as missing:
            return Outcome.MISSING, str(missing)
        except (AssertionError, RefusedError, TimeoutError) as failure:
            return Outcome.FAILED, f"{failure!r}\n{peer.errors_text()}"
    return Outcome.PASSED, ""


def kept() -> Outcomes:
    """The outcomes that were recorded last."""
    found = json.loads(_FILE.read_bytes())
    return {
        language: {
            server: {capability: Outcome(outcome) for capability, outcome in outcomes.items()}
            for server, outcomes in servers.items()
        }
        for language, servers in found.items()
    }


def keep(outcomes: Outcomes) -> None:
    """Record outcomes."""
    _FILE.write_text(json.dumps(outcomes, indent=1) + "\n", encoding="utf-8")
