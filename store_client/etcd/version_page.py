"""The version that a member tells by HTTP, where its gRPC tells root alone."""

from __future__ import annotations

import asyncio
import ssl
from typing import Final

import msgspec

from entrepot.store_client.etcd.settings import EtcdSettings

LARGEST_ANSWER: Final = 64 << 10


async def version_of(address: str, settings: EtcdSettings) -> str:
    """Return the version; empty where it is not told."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(settings.request_seconds):
            return await _asked(host.strip("[]"), int(port), address, _context(settings))
    except (OSError, TimeoutError, ValueError, msgspec.MsgspecError):
        return ""


async def _asked(host: str, port: int, address: str, context: ssl.SSLContext | None) -> str:
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        writer.write(f"GET /version HTTP/1.0\r\nHost: {address}\r\n\r\n".encode())
        answer = await reader.read(LARGEST_ANSWER)
        while piece := await reader.read(LARGEST_ANSWER):
            answer += piece
    finally:
        writer.close()
    body = answer.partition(b"\r\n\r\n")[2]
    return msgspec.json.decode(body, type=dict[str, str]).get("etcdserver", "")


def _context(settings: EtcdSettings) -> ssl.SSLContext | None:
    if not settings.has_tls:
        return None
    context = ssl.create_default_context(cafile=None if settings.ca is None else str(settings.ca))
    if settings.certificate is not None:
        context.load_cert_chain(settings.certificate, settings.key)
    return context
