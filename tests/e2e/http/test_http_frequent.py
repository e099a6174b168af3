"""Receiving and acknowledging: frequent requests, which unknown parameters do not change."""

from __future__ import annotations

import httpx2
import pytest

CE = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}


@pytest.mark.parametrize("further", ["", "&x=1"])
def test_unknown_parameters_change_nothing(client: httpx2.Client, topic: str, further: str):
    client.post(f"/topics/{topic}:publish", headers=CE, content=b"{}").raise_for_status()
    path = f"/topics/{topic}/eventsubscriptions/g"
    got = client.post(f"{path}:receive?maxEvents=5&maxWaitTime=5{further}")
    (only,) = got.json()["value"]
    assert (got.headers["content-type"], only["event"]["id"]) == ("application/json", "1")
    tokens = [only["brokerProperties"]["lockToken"], "junk"]
    settled = client.post(f"{path}:acknowledge?{further}", json={"lockTokens": tokens}).json()
    assert settled["succeededLockTokens"] == tokens[:1]
    assert [failed["lockToken"] for failed in settled["failedLockTokens"]] == ["junk"]
    answer = client.post(f"{path}:acknowledge?{further}", content=b"junk")
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    refused = client.post(f"/topics/{topic}/eventsubscriptions/{'g' * 300}:receive?maxEvents=1{further}")
    assert refused.status_code == 400
