"""RabbitMQ's password hashes: vectors of a real server, and what no password fits."""

from __future__ import annotations

import base64
import hashlib

import pytest
from argon2 import PasswordHasher

from entrepot.domain.errors import EntrepotError
from entrepot.gateway.security.passwords import PasswordChecker
from entrepot.gateway.security.rabbitmq_hashes import ARGON2ID, SHA256, SHA512, is_right, kept_hash, shown_hash
from entrepot.gateway.security.records import UserRecord
from entrepot.gateway.settings.security import SecuritySettings
from tests.support.cases import cases
from tests.support.cheap_hashes import CHEAP_HASHES

OF_SECRET = "nt4D+YZPgExuWon05KjON1/eeqr58JWoY36XOXpPAeLd/081"
"""Of `secret`, by Debian's rabbitmq-server."""
CHEAP = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)


def sha512_of(password: bytes, salt: bytes = b"salt") -> str:
    return base64.b64encode(salt + hashlib.sha512(salt + password).digest()).decode()


@cases("algorithm, hashed", [(SHA256, OF_SECRET), (SHA512, sha512_of(b"secret"))])
def test_a_hash_fits_its_password_alone(algorithm: str, hashed: str) -> None:
    kept = kept_hash(hashed, algorithm)
    assert is_right(kept, b"secret") and not is_right(kept, b"Secret") and not is_right(kept, b"")
    assert shown_hash(kept) == (hashed, algorithm)


async def test_who_has_a_hash_of_rabbitmq_logs_in_with_the_password() -> None:
    checker = PasswordChecker(SecuritySettings(**CHEAP_HASHES))
    await checker.prepare()
    for hashed in (kept_hash(OF_SECRET, SHA256), kept_hash(CHEAP.hash("secret"), ARGON2ID)):
        user = UserRecord("u", is_super=False, is_enabled=True, credential="c", password_hash=hashed)
        assert await checker.is_right(user, b"secret") and not await checker.is_right(user, b"other")
    checker.close()


@cases(
    "algorithm, hashed",
    [
        (SHA512, OF_SECRET),
        (SHA256, sha512_of(b"x")),
        (SHA256, "no base64!"),
        (SHA256, "\u00e9" * 48),
        (SHA256, "x" * 1000),
        ("rabbit_password_hashing_md5", OF_SECRET),
        (ARGON2ID, OF_SECRET),
        (ARGON2ID, "$argon2id$v=19$m=99999999,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA"),
    ],
)
def test_what_no_password_fits_is_refused(algorithm: str, hashed: str) -> None:
    with pytest.raises(EntrepotError):
        kept_hash(hashed, algorithm)
