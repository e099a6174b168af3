"""A server with users, as the tests of rights at the RocketMQ door use it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import httpx2

from entrepot.protocols.rocketmq.headers import Credentials
from tests.support.processes.server import ServerProcess
from tests.support.rocketmq.client import GrpcClient

SECRET = "a-signing-secret"
Needs = tuple[tuple[str, str], ...]


@dataclass
class Site:
    """A running server with users, and its super user."""

    server: ServerProcess
    root: httpx2.Client

    def user(self, *statements: dict[str, Any], name: str = "", secret: str = SECRET) -> str:
        name = name or f"u{uuid.uuid4().hex[:10]}"
        assert self.root.put(f"/api/v1/users/{name}", json={"signingSecret": secret}).status_code in (200, 201)
        self.policy(name, *statements)
        return name

    def policy(self, name: str, *statements: dict[str, Any]) -> None:
        assert self.root.put(f"/api/v1/acls/{name}", json={"statements": list(statements)}).status_code in (200, 201)

    def client(self, name: str, secret: str = SECRET, **others: Any) -> GrpcClient:
        return GrpcClient(self.server.address("grpc"), Credentials(name, secret), **others)


def allow(*needs: tuple[str, str], effect: str = "ALLOW") -> dict[str, Any]:
    return {
        "effect": effect,
        "actions": sorted({action for action, _ in needs}),
        "resources": sorted({place for _, place in needs}),
    }


def statements(needs: Needs) -> list[dict[str, Any]]:
    return [allow(need) for need in needs]


EVERYTHING = {"effect": "ALLOW", "actions": ["ALL"], "resources": ["Topic:*", "Group:*"]}
