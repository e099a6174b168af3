"""Users with statements, and tokens that name them: for tests of rights at a running server."""

from __future__ import annotations

import json
import time
import uuid
from pathlib import Path
from typing import Any, Final

import httpx2
from joserfc import jwt
from joserfc.jwk import KeySet, RSAKey

from tests.support.cheap_hashes import CHEAP_FLAGS

Statement = dict[str, Any]
Need = tuple[str, str]
"""An action and a resource."""

ROOT: Final = {
    **CHEAP_FLAGS,
    "security.initial_admin": "root",
    "security.initial_admin_password": "root",
}
"""Settings of a server whose first user is `root`; passwords are checked cheaply."""


def said(effect: str, *needs: Need) -> list[Statement]:
    """A statement for each need."""
    return [{"effect": effect, "actions": [action], "resources": [resource]} for action, resource in needs]


def new_user(root: httpx2.Client, *statements: Statement, name: str = "") -> str:
    """A user with the password `pw`, and with statements; its name."""
    name = name or f"u{uuid.uuid4().hex[:10]}"
    assert root.put(f"/api/v1/users/{name}", json={"password": "pw"}).status_code == 201
    allow(root, name, *statements)
    return name


def allow(root: httpx2.Client, name: str, *statements: Statement) -> None:
    """Give a user these statements, in place of all others."""
    changed = root.put(f"/api/v1/acls/{name}", json={"statements": list(statements)})
    assert changed.status_code in (200, 201), changed.text


class TokenIssuer:
    """Somebody whose tokens a server with `settings` believes."""

    name, audience = "https://issuer.test", "entrepot"

    def __init__(self, directory: Path) -> None:
        self._key = RSAKey.generate_key(2048, {"kid": "k"})
        self._file = directory / "key.json"
        self._file.write_text(json.dumps(KeySet([self._key]).as_dict(private=False)))

    @property
    def settings(self) -> dict[str, str]:
        return {
            "security.jwt_issuer": self.name,
            "security.jwt_audience": self.audience,
            "security.jwt_key_file": str(self._file),
        }

    def token(self, name: str, seconds: float) -> str:
        """Names a user for so long."""
        claims = {"iss": self.name, "aud": self.audience, "sub": name, "exp": int(time.time() + seconds)}
        return jwt.encode({"alg": "RS256", "kid": "k"}, claims, self._key)
