"""The first administrator, as the settings name it: made at a start that finds no super user, and never again.

A user that is there is never changed, and one that was deleted does not come back while another super user can work.
Where the settings give no password, one is made up: it is in a file that its owner alone can read, or the start
prints it where the data are elsewhere.
"""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path
from typing import Final

import structlog

from domain.errors import Code, EntrepotError
from gateway.security.administration import Administration, By, UserChange
from gateway.security.directory import Directory
from gateway.security.private_file import write_private
from gateway.settings.security import SecuritySettings

PASSWORD_FILE_NAME: Final = "initial-admin-password"
RANDOM_BYTES: Final = 18
_BY: Final = By("settings", "")
_log = structlog.get_logger(__name__)


class InitialAdmin:
    """`path`: the file of a password that is made up; None: there is none, and the start prints it."""

    def __init__(
        self, administration: Administration, directory: Directory, settings: SecuritySettings, path: Path | None
    ) -> None:
        self._administration = administration
        self._directory = directory
        self._settings = settings
        self.path = None if path is None else path.absolute()
        self.name = settings.initial_admin
        self.made_up: str | None = None
        """The password that this start has made up."""

    async def ensure(self) -> None:
        """Make it where there is no enabled super user.

        Raises BAD_REQUEST where its password cannot be read, and what the store raises.
        """
        name = self.name
        if name is None or self._directory.has_user(name):
            return
        if any(user.is_super and user.is_enabled for user in self._directory.users()):
            return
        password = self._given_password() or self._make_up()
        try:
            await self._administration.put_user(_BY, name, UserChange(password, is_super=True), only_new=True)
        except EntrepotError as refusal:
            if refusal.code is not Code.PRECONDITION_FAILED or not await self._administration.is_kept(name):
                raise  # perhaps it is made: the file stays
            self._take_back()  # another gateway was faster: its password counts
            return
        _log.info("made the super user of the settings", user=name)

    def _given_password(self) -> str | None:
        settings = self._settings
        if settings.initial_admin_password is not None:
            return settings.initial_admin_password.get_secret_value()
        path = settings.initial_admin_password_file
        if path is None:
            return None
        try:
            given = path.read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
        except (OSError, UnicodeDecodeError) as error:
            raise EntrepotError(
                Code.BAD_REQUEST, f"cannot read the password of the first user in {path}: {error}"
            ) from None
        if not given:
            raise EntrepotError(Code.BAD_REQUEST, f"the first line of {path} is empty: it is the first user's password")
        return given

    def _make_up(self) -> str:
        """A password; it is in its file before it is anybody's."""
        self.made_up = secrets.token_urlsafe(RANDOM_BYTES)
        if self.path is not None:
            try:
                write_private(self.path, self.made_up)
            except OSError as error:
                _log.warning("cannot write the first user's password: the start prints it", error=str(error))
                self.path = None
        return self.made_up

    def _take_back(self) -> None:
        if self.made_up is not None and self.path is not None:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)
        self.made_up = None
