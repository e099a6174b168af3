"""Official SDKs, unchanged and with their own settings: the list at our door and at RocketMQ's proxy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.rocketmq.sdks import servers
from tests.conformance.rocketmq.sdks.capabilities import CAPABILITIES, TWO_GATEWAYS
from tests.conformance.rocketmq.sdks.playing import SDKS, Outcome, kept, play
from tests.conformance.rocketmq.sdks.reasons import REASONS, Reason
from tests.support.rocketmq.cluster import on_rocketmq
from tests.support.rocketmq.peers.hosts import HOSTS

Named = tuple[str, servers.Server]
OF_ONE = [each for each in CAPABILITIES if each != TWO_GATEWAYS]


@pytest.fixture(scope="module", params=servers.NAMES)
def one(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Named]:
    with servers.started(request.param, tmp_path_factory.mktemp("one")) as server:
        yield request.param, server


@pytest.fixture(scope="module", params=servers.NAMES)
def two(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Named]:
    with servers.started(request.param, tmp_path_factory.mktemp("two"), 2) as server:
        yield request.param, server


def at_rocketmq(test: object) -> object:
    """Give a test the marks of those at the shared cluster, of which one worker has all."""
    for mark in on_rocketmq:
        test = mark(test)
    return test


@at_rocketmq
@pytest.mark.parametrize("capability", OF_ONE)
@pytest.mark.parametrize("language", SDKS)
def test_it_does_what_was_kept(language: str, capability: str, one: Named) -> None:
    check(language, capability, one)


@at_rocketmq
@pytest.mark.parametrize("language", SDKS)
def test_it_goes_on_with_the_other_of_two_gateways(language: str, two: Named) -> None:
    check(language, TWO_GATEWAYS, two)


def check(language: str, capability: str, at: Named) -> None:
    if absent := HOSTS[language].absent():
        pytest.skip(absent)
    name, server = at
    outcome, text = play(language, capability, server)
    print(f"{HOSTS[language].name} at {name}, {capability}: {outcome}")
    assert outcome is kept()[language][name][capability], text


def test_every_sdk_was_played_at_both_servers() -> None:
    expected = {language: {name: set(CAPABILITIES) for name in servers.NAMES} for language in SDKS}
    assert {of: {name: set(found) for name, found in at.items()} for of, at in kept().items()} == expected


def test_what_did_not_pass_has_one_reason() -> None:
    for language, at in kept().items():
        for name, found in at.items():
            for capability, outcome in found.items():
                reasons = [each for each in REASONS if each.explains(language, name, capability)]
                assert len(reasons) == (outcome is not Outcome.PASSED), (language, name, capability, outcome)


@pytest.mark.parametrize("reason", REASONS, ids=lambda each: each.why[:40])
def test_a_reason_explains_what_is_there(reason: Reason) -> None:
    assert reason.language in SDKS
    assert set(reason.capabilities) <= set(CAPABILITIES)
    assert set(reason.servers) <= set(servers.NAMES)
