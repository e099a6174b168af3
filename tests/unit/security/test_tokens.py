"""JWT: what is right, and everything that is not; keys of files and of URLs."""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey
from pydantic import ValidationError

from entrepot.domain.access.model import Action, Origin, ResourceType
from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.security.changes import UserChange
from entrepot.gateway.security.security import Security
from entrepot.gateway.settings import SecuritySettings
from tests.support.cases import cases
from tests.unit.security.conftest import ME, Opened, StandingClock, shown

RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
OTHER_RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
EC = ECKey.generate_key("P-256", {"kid": "ec"})
TOKENS = {"jwt_issuer": "https://issuer", "jwt_audience": "entrepot"}
NOW = 1_800_000_000


def token(key: Any = RSA, algorithm: str = "RS256", kid: str | None = "rsa", **claims: Any) -> str:
    said = {"iss": "https://issuer", "aud": "entrepot", "sub": "bob", "exp": NOW + 60} | claims
    header = {"alg": algorithm} | ({"kid": kid} if kid is not None else {})
    return jwt.encode(header, {name: value for name, value in said.items() if value is not None}, key, [algorithm])


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def key_set(*keys: Any) -> str:
    return json.dumps(KeySet(list(keys)).as_dict(private=False))


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "keys.json"
    file.write_text(key_set(RSA, EC))
    return file


@pytest.fixture
async def security(opened: Opened, key_file: Path) -> Security:
    made = await opened(**TOKENS, jwt_key_file=key_file, jwt_acl_claim="acl")
    await made.administration.put_user(ME, "root", UserChange("root", is_super=True))
    return made


async def is_refused(security: Security, text: str, code: Code = Code.UNAUTHORIZED) -> None:
    with pytest.raises(EntrepotError) as refusal:
        await security.authenticate(shown(None, text, bearer=True))
    assert refusal.value.code is code


@pytest.mark.parametrize("form", ["jwk", "pem"])
async def test_keys_after_a_byte_order_mark(opened: Opened, key_file: Path, form: str) -> None:
    text = key_set(RSA) if form == "jwk" else RSA.as_pem(private=False).decode()
    key_file.write_text(text, encoding="utf-8-sig")
    security = await opened(**TOKENS, jwt_key_file=key_file)
    said = token() if form == "jwk" else token(kid=None)
    assert (await security.authenticate(shown(None, said, bearer=True))).name == "bob"


async def test_a_right_token_is_somebody_until_it_ends(security: Security, clock: StandingClock) -> None:
    statements = [{"effect": "ALLOW", "actions": ["PUB"], "resources": ["Topic:a/#"]}]
    for credentials in (
        shown(None, token(acl=statements), bearer=True),
        shown("bob", token(acl=statements)),
        shown(None, token(EC, "ES256", "ec", acl=statements), bearer=True),
    ):
        bob = await security.authenticate(credentials)
        assert (bob.name, bob.origin, bob.expires_at_ms) == ("bob", Origin.TOKEN, (NOW + 60) * 1000)
        assert security.allows(bob, Action.PUB, ResourceType.TOPIC, "a/b")
        assert not security.allows(bob, Action.PUB, ResourceType.TOPIC, "b")
        assert not security.allows(bob, Action.SUB, ResourceType.TOPIC, "a/b")
    clock.at_ms += 60_000
    assert not security.allows(bob, Action.PUB, ResourceType.TOPIC, "a/b"), "though it was decided before"
    await is_refused(security, token(acl=statements))


async def test_a_token_that_is_remembered_ends_all_the_same(
    opened: Opened, key_file: Path, clock: StandingClock
) -> None:
    security = await opened(**TOKENS, jwt_key_file=key_file, cache_seconds=600)
    said = token()
    for _ in range(2):
        assert (await security.authenticate(shown(None, said, bearer=True))).name == "bob"
    clock.at_ms += 59_999
    assert (await security.authenticate(shown(None, said, bearer=True))).name == "bob"
    clock.at_ms += 1
    await is_refused(security, said)


@cases(
    "claims",
    [
        {"iss": "https://other"},
        {"iss": None},
        {"aud": "other"},
        {"aud": None},
        {"exp": None},
        {"exp": NOW},
        {"exp": "tomorrow"},
        {"exp": 10**18},
        {"nbf": NOW + 5},
        {"sub": None},
        {"sub": 7},
        {"sub": ""},
        {"sub": "anonymous"},
        {"sub": "*"},
        {"acl": "all"},
        {"acl": [{"effect": "ALLOW", "actions": ["FLY"], "resources": ["Topic:*"]}]},
        {"acl": [{"effect": "ALLOW", "actions": ["PUB"], "resources": ["Topic:a/#/b"]}]},
    ],
    ids=str,
)
async def test_wrong_claims(security: Security, claims: dict[str, Any]) -> None:
    await is_refused(security, token(**claims))


async def test_wrong_signatures(security: Security) -> None:
    await is_refused(security, token(OTHER_RSA))
    await is_refused(security, token(kid="unknown"))
    await is_refused(security, token(kid=None))  # there are two keys
    await is_refused(security, token(kid="ec"))
    await is_refused(security, token(RSA, "RS512"))
    # the public key, which everybody knows, as a shared secret
    head, body, _ = token().split(".")
    header = encoded(b'{"alg":"HS256","kid":"rsa"}')
    forged = f"{header}.{body}"
    mac = hmac.digest(RSA.as_pem(private=False), forged.encode(), "sha256")
    await is_refused(security, f"{forged}.{encoded(mac)}")
    await is_refused(security, f"{head}.{body}.")
    none = "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0"
    await is_refused(security, f"{none}.{body}.")
    for text in ("", "eyJ..", "eyJ.x.y", "a" * 20_000, "eyJ" + "." * 2 + "é"):
        await is_refused(security, text)


async def test_a_token_of_somebody_else(security: Security) -> None:
    with pytest.raises(EntrepotError):
        await security.authenticate(shown("eve", token()))
    await security.administration.put_user(ME, "bob", UserChange(is_enabled=False))
    await is_refused(security, token(), Code.FORBIDDEN)


async def test_keys_of_a_file_are_followed(security: Security, key_file: Path) -> None:
    await security.authenticate(shown(None, token(jti="1"), bearer=True))
    key_file.write_text(key_set(OTHER_RSA))
    await is_refused(security, token(jti="2"))
    await security.authenticate(shown(None, token(OTHER_RSA, jti="3"), bearer=True))
    key_file.write_bytes(RSA.as_pem(private=False))
    await security.authenticate(shown(None, token(jti="4"), bearer=True))
    key_file.unlink()
    await is_refused(security, token(jti="5"))


class Keys:
    """A server of keys."""

    def __init__(self) -> None:
        self.body = key_set(RSA, EC)
        self.status = 200
        self.asked = 0
        self.target = self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        self.target = request.raw_path
        return web.Response(text=self.body, status=self.status, content_type="application/json")


@pytest.fixture
async def keys() -> AsyncIterator[Keys]:
    served = Keys()
    app = web.Application()
    app.router.add_get("/{path:.*}", served.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    served.url = f"http://127.0.0.1:{runner.addresses[0][1]}/keys"
    yield served
    await runner.cleanup()


async def test_keys_of_a_url(opened: Opened, keys: Keys, clock: StandingClock) -> None:
    security = await opened(**TOKENS, jwks_url=keys.url, anonymous="never")

    async def comes_in(text: str) -> None:
        await security.authenticate(shown(None, text, bearer=True))

    far: dict[str, Any] = {"exp": NOW + 10_000}
    await comes_in(token(jti="1", **far))
    await comes_in(token(jti="2", **far))
    assert keys.asked == 1
    for number in range(5):
        await is_refused(security, token(kid=f"unknown{number}", **far))
    assert keys.asked == 1, "unknown names fetch only once in a while"
    keys.body = key_set(OTHER_RSA)
    clock.at_ms += 301_000
    await is_refused(security, token(jti="3", **far))
    assert keys.asked == 2
    clock.at_ms += 301_000
    keys.status = 500
    await is_refused(security, token(OTHER_RSA, jti="4", **far))
    assert keys.asked == 3, "old keys are not used beyond their time"
    keys.status, keys.body = 200, " " * 300_000
    clock.at_ms += 11_000
    await is_refused(security, token(OTHER_RSA, jti="5", **far))
    keys.body = key_set(OTHER_RSA)
    clock.at_ms += 11_000
    await comes_in(token(OTHER_RSA, jti="6", **far))


async def test_keys_are_asked_for_at_the_url_as_it_was_given(opened: Opened, keys: Keys) -> None:
    query = "?of=%2Fa%2Cb,c&next=../d"
    security = await opened(**TOKENS, jwks_url=keys.url.replace("/keys", "/a/../keys") + query, anonymous="never")
    await security.authenticate(shown(None, token(), bearer=True))
    assert keys.target == "/a/../keys" + query


async def test_without_keys_a_token_is_refused_even_here(opened: Opened) -> None:
    security = await opened(**TOKENS, jwks_url="http://127.0.0.1:1/keys")
    with pytest.raises(EntrepotError):
        await security.authenticate(shown(None, token(), bearer=True, source="127.0.0.1"))


@cases(
    "settings",
    [
        {"jwt_issuer": "i"},
        {"jwt_issuer": "i", "jwt_audience": "a"},
        {"jwt_key_file": "keys"},
        {**TOKENS, "jwt_key_file": "keys", "jwks_url": "https://x/keys"},
        {**TOKENS, "jwks_url": "http://example.org/keys"},
        {**TOKENS, "jwks_url": "file:///etc/keys"},
        {**TOKENS, "jwks_url": "https://example.org/ke ys"},
        {**TOKENS, "jwks_url": "https://"},
        {"jwt_algorithms": ["none"]},
        {"jwt_algorithms": []},
        {"jwt_algorithms": ["HS256", "RS256"]},
        {"initial_admin": "admin", "initial_admin_password": "x", "initial_admin_password_file": "y"},
        {"initial_admin": "*", "initial_admin_password": "x"},
    ],
    ids=str,
)
def test_settings_that_cannot_be(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SecuritySettings(**settings)
