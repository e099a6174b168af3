"""The first user's password, where nobody has given one: made up once, and told to its owner alone."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from entrepot.domain.errors import Code, EntrepotError
from entrepot.gateway.security.initial_admin import PASSWORD_FILE_NAME
from entrepot.gateway.security.security import Security
from entrepot.gateway.security.setup_token import FILE_NAME
from entrepot.gateway.settings import SecuritySettings
from tests.support.cheap_hashes import CHEAP_HASHES
from tests.support.clock import ManualClock
from tests.support.stores.model_store import MemoryStore
from tests.unit.security.conftest import shown

NAMED = SecuritySettings(**CHEAP_HASHES, initial_admin="admin")


async def started(store: MemoryStore, path: Path | None) -> Security:
    security = Security(store.key_values, NAMED, ManualClock(), path)
    await security.start()
    return security


async def test_a_password_is_made_up_once(tmp_path: Path) -> None:
    store, file = MemoryStore(ManualClock()), tmp_path / PASSWORD_FILE_NAME
    first = await started(store, tmp_path / FILE_NAME)
    made_up = file.read_text().strip()
    assert first.initial_admin.made_up == made_up and len(made_up) >= 24
    assert first.initial_admin.path == file and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert first.may_administer(await first.authenticate(shown("admin", made_up)))
    assert [each.name for each in tmp_path.iterdir()] == [PASSWORD_FILE_NAME], "no setup token beside it"
    again = await started(store, tmp_path / FILE_NAME)
    assert again.initial_admin.made_up is None and file.read_text().strip() == made_up
    first.close(), again.close()


async def test_it_is_printed_where_no_file_can_be(tmp_path: Path) -> None:
    for path in (None, tmp_path / "none" / FILE_NAME):
        security = await started(MemoryStore(ManualClock()), path)
        made_up = security.initial_admin.made_up
        assert security.initial_admin.path is None and made_up is not None
        assert (await security.authenticate(shown("admin", made_up))).name == "admin"
        security.close()


async def test_a_given_password_is_the_first_line_as_it_was_typed(tmp_path: Path) -> None:
    file = tmp_path / "given"
    settings = NAMED.model_copy(update={"initial_admin_password_file": file})
    for encoding in ("utf-8", "utf-8-sig"):
        file.write_text("pa\u00dfwort\r\nmore\n", encoding=encoding)
        security = Security(MemoryStore(ManualClock()).key_values, settings, ManualClock(), tmp_path / FILE_NAME)
        await security.start()
        assert (await security.authenticate(shown("admin", "pa\u00dfwort"))).name == "admin"
        security.close()
    file.write_text("secret\n", encoding="utf-16")
    security = Security(MemoryStore(ManualClock()).key_values, settings, ManualClock(), tmp_path / FILE_NAME)
    with pytest.raises(EntrepotError, match=f"{file}: it is UTF-16"):
        await security.start()


async def test_of_two_gateways_one_makes_it_up(tmp_path: Path) -> None:
    store = MemoryStore(ManualClock())
    write = store.key_values.write
    winners: list[Security | None] = []

    async def slow(changes):  # type: ignore[no-untyped-def]
        if changes[0].key == "user/admin" and not winners:
            winners.append(None)
            winners.append(await started(store, None))
        return await write(changes)

    store.key_values.write = slow  # type: ignore[method-assign]
    loser = await started(store, tmp_path / FILE_NAME)
    winner = winners[1]
    assert winner is not None and winner.initial_admin.made_up is not None
    assert loser.initial_admin.made_up is None and list(tmp_path.iterdir()) == []
    assert (await winner.authenticate(shown("admin", winner.initial_admin.made_up))).name == "admin"
    loser.close(), winner.close()


async def test_what_is_perhaps_made_keeps_its_password(tmp_path: Path) -> None:
    store = MemoryStore(ManualClock())
    write = store.key_values.write

    async def unknown(changes):  # type: ignore[no-untyped-def]
        await write(changes)
        raise EntrepotError(Code.OUTCOME_UNKNOWN, "the broker has gone")

    store.key_values.write = unknown  # type: ignore[method-assign]
    security = Security(store.key_values, NAMED, ManualClock(), tmp_path / FILE_NAME)
    with pytest.raises(EntrepotError, match="has gone"):
        await security.start()
    store.key_values.write = write  # type: ignore[method-assign]
    again = await started(store, tmp_path / FILE_NAME)
    assert (await again.authenticate(shown("admin", (tmp_path / PASSWORD_FILE_NAME).read_text().strip()))).name
    again.close()
