"""`python -m tests.conformance.rocketmq.sdks.run [LANGUAGE ...]` plays the list by SDKs at both servers.

It prints what each did, and keeps the outcomes.  The page is made of them by `python -m tests.conformance.mqtt.report`.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.rocketmq.sdks import servers
from tests.conformance.rocketmq.sdks.capabilities import CAPABILITIES, TWO_GATEWAYS
from tests.conformance.rocketmq.sdks.playing import SDKS, Outcome, Outcomes, keep, kept, play
from tests.support.rocketmq.peers.hosts import HOSTS


def main(languages: Sequence[str]) -> None:
    """Play, print, and keep."""
    outcomes = kept()
    for language in languages:
        if absent := HOSTS[language].absent():
            raise SystemExit(absent)
        outcomes[language] = {name: {} for name in servers.NAMES}
    for name in servers.NAMES:
        for gateways, capabilities in (
            (1, [each for each in CAPABILITIES if each != TWO_GATEWAYS]),
            (2, [TWO_GATEWAYS]),
        ):
            with tempfile.TemporaryDirectory() as directory, servers.started(name, Path(directory), gateways) as server:
                for language in languages:
                    _play(outcomes, language, name, capabilities, server)
    keep(outcomes)
    for language in languages:
        _print(language, outcomes)


def _play(outcomes: Outcomes, language: str, name: str, capabilities: list[str], server: servers.Server) -> None:
    for capability in capabilities:
        outcome, text = play(language, capability, server)
        outcomes[language][name][capability] = outcome
        print(f"{HOSTS[language].name} at {name}, {capability}: {outcome} {text}", flush=True)


def _print(language: str, outcomes: Outcomes) -> None:
    """What passed, what the SDK has not, and what differs."""
    of = outcomes[language]
    print(f"\n{HOSTS[language].name}")
    for outcome in Outcome:
        alike = [each for each in CAPABILITIES if {of[name][each] for name in servers.NAMES} == {outcome}]
        print(f"  {outcome} at both: {'; '.join(alike) or 'nothing'}")
    for each in CAPABILITIES:
        if len({of[name][each] for name in servers.NAMES}) > 1:
            print(f"  {each}: " + ", ".join(f"{of[name][each]} at {name}" for name in servers.NAMES))


if __name__ == "__main__":
    main(sys.argv[1:] or SDKS)
