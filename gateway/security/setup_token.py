"""SetupToken: the secret that is needed to define the first user.

Being on the machine is not enough: any page in a browser there would be, too. All gateways of a store share the token:
it is a key-value, made by the first gateway that finds no user, and ends with the first user. Each gateway writes it
into a file that its owner alone can read.
"""

from __future__ import annotations

import contextlib
import hmac
import re
from pathlib import Path
from typing import Final

import structlog

from entrepot.domain.access.model import Origin, Principal
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.key_value import KeyValueChange
from entrepot.domain.ports import KeyValues
from entrepot.gateway.security.credentials import Credentials
from entrepot.gateway.security.private_file import write_private
from entrepot.gateway.security.shared_secret import RANDOM_BYTES, shared_secret

KEY: Final = "setup/token"
FILE_NAME: Final = "setup-token"
PREFIX: Final = "entrepot-setup-"
TOKEN: Final = re.compile(PREFIX + "[A-Za-z0-9_-]{43}")
"""Pattern of a whole token; no other secret looks so."""
SETUP: Final = "setup"
"""Name of a principal with the token."""

_log = structlog.get_logger(__name__)


class SetupTokenNeededError(EntrepotError):
    """A client without the token would define users or policies while there is no user."""

    def __init__(self, path: Path | None) -> None:
        where = "that the start has printed" if path is None else f"in {path}"
        super().__init__(
            Code.UNAUTHORIZED, f"no user is defined yet: who defines the first shows the setup token {where}"
        )
        self.path = path


class SetupToken:
    """The token; `path` is its file, or None to print the token at the start."""

    def __init__(self, key_values: KeyValues, path: Path | None) -> None:
        self._key_values = key_values
        self.path = None if path is None else path.absolute()
        self.value: str | None = None
        """Token, as long as there is no user."""

    async def open(self, wait_seconds: float = 0) -> None:
        """Take the store's token, or make one, and write the file. It is retried for `wait_seconds` while the keeper is
        away, or another gateway ends the token in this moment. Raises what the store raises."""
        self.value = await self._of_store(wait_seconds)
        if self.path is not None:
            try:
                _write(self.path, self.value)
            except OSError as error:
                _log.warning("cannot write the setup token: the start prints it", path=str(self.path), error=str(error))
                self.path = None

    def end(self) -> None:
        """End the token after the first user, and delete its file."""
        self.value = None
        if self.path is not None:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)

    async def forget(self) -> None:
        """End the token, also in the store; where that fails, the next start does it."""
        self.end()
        with contextlib.suppress(EntrepotError):
            (found,) = await self._key_values.get([KEY])
            if found is not None:
                await self._key_values.write([KeyValueChange(KEY, None, found.version)])

    def principal_of(self, credentials: Credentials) -> Principal | None:
        """The principal of a client with the token, as a bearer token or as a password."""
        shown = credentials.password
        if self.value is None or shown is None or not hmac.compare_digest(shown, self.value.encode()):
            return None
        return Principal(SETUP, Origin.SETUP, credentials.source, credentials.client_id)

    async def _of_store(self, wait_seconds: float) -> str:
        token = await shared_secret(self._key_values, KEY, PREFIX, wait_seconds)
        if not TOKEN.fullmatch(token):
            raise EntrepotError(Code.INTERNAL_ERROR, "the store has no setup token that can be read")
        return token


def token_in(path: Path) -> str | None:
    """The token in a file, or None where there is none that can be read."""
    try:
        with path.open(encoding="ascii") as file:
            text = file.read(len(PREFIX) + 2 * RANDOM_BYTES).strip()
    except (OSError, UnicodeDecodeError):
        return None
    return text if TOKEN.fullmatch(text) else None


def _write(path: Path, token: str) -> None:
    """Write the file atomically, for its owner alone; an equal one needs no room on a full disk."""
    if token_in(path) == token:
        return
    write_private(path, token)
