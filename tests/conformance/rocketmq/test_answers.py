"""Every conversation at our door and at RocketMQ's proxy: the answers are those kept, and differ for reasons alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.conformance.rocketmq import servers
from tests.conformance.rocketmq.all_conversations import BY_NAME, CONVERSATIONS
from tests.conformance.rocketmq.conversation import Conversation
from tests.conformance.rocketmq.differences import DIFFERENCES, Difference
from tests.conformance.rocketmq.kept import OURS, THEIRS, differing, kept

PARTS = [CONVERSATIONS[first : first + 20] for first in range(0, len(CONVERSATIONS), 20)]
"""Conversations that one test plays, several at once."""


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Server]:
    with servers.started(OURS, tmp_path_factory.mktemp(OURS)) as server:
        yield server


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part[0].name)
def test_our_answers(part: tuple[Conversation, ...], ours: servers.Server) -> None:
    stated = kept(OURS)
    assert ours.answers(part) == {each.name: stated[each.name] for each in part}


@pytest.mark.interop
@pytest.mark.timeout(600)
def test_answers_of_the_proxy(tmp_path_factory: pytest.TempPathFactory) -> None:
    with servers.started(THEIRS, tmp_path_factory.mktemp(THEIRS)) as server:
        assert server.answers(CONVERSATIONS) == kept(THEIRS)


def test_every_conversation_has_kept_answers() -> None:
    assert set(kept(OURS)) == set(kept(THEIRS)) == set(BY_NAME)


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda each: each.name)
def test_each_difference_has_a_reason(conversation: Conversation) -> None:
    found = differing(kept(OURS)[conversation.name], kept(THEIRS)[conversation.name])
    reasons = [each for each in DIFFERENCES if not each.conversations or conversation.name in each.conversations]
    unexplained = {path: both for path, both in found.items() if not any(_covers(each, path) for each in reasons)}
    assert unexplained == {}


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda each: each.why[:50])
def test_each_reason_has_a_difference(difference: Difference) -> None:
    ours, theirs = kept(OURS), kept(THEIRS)
    for name in difference.conversations:
        assert any(_covers(difference, path) for path in differing(ours[name], theirs[name])), name
    paths = [path for name in ours for path in differing(ours[name], theirs[name])]
    assert any(_covers(difference, path) for path in paths)


def _covers(difference: Difference, path: str) -> bool:
    return any(re.search(rf"(^|\.)({field})$", path) for field in difference.fields)
