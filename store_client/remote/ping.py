"""Asking a broker or a name server whether it is there: a connection, a greeting, and nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from broker.remoting.link import Link, LinkSettings
from broker.remoting.tls import TlsFiles
from domain.errors import Code, EntrepotError

LOOK_SECONDS: Final = 0.02


async def ping(
    address: str, *, cluster: str = "", tls: tuple[Path | None, Path | None, Path | None], seconds: float
) -> float:
    """Seconds from the first packet until it has greeted back, as one of `cluster`.

    `tls`: certificate, key and authority.  Raises UNAVAILABLE with why at the first failure: whoever asks wants to know
    how it is now.  Raises OSError or ssl.SSLError for files that cannot be used.
    """
    settings = LinkSettings(who="ping", cluster=cluster, tls=TlsFiles(*tls).client(), connect_seconds=seconds)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    greeted: asyncio.Future[float] = loop.create_future()

    def is_up() -> None:
        if not greeted.done():
            greeted.set_result(loop.time() - begun)

    link = Link(address, settings, on_up=is_up)
    untried = link.problem
    link.start()
    try:
        while not greeted.done():
            if link.problem != untried:
                raise EntrepotError(Code.UNAVAILABLE, link.problem)
            if loop.time() - begun > seconds:
                raise EntrepotError(Code.UNAVAILABLE, f"no greeting within {seconds:g} s")
            await asyncio.wait((greeted,), timeout=LOOK_SECONDS)
        return greeted.result()
    finally:
        await link.close()
