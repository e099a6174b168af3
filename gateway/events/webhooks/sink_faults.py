"""Reasons of failed requests to sinks, each in one line of our own words: shown to people, kept with dead letters."""

from __future__ import annotations

import os
import ssl

import aiohttp

from entrepot.gateway.events.webhooks.addresses import NO_ADDRESS, ForbiddenAddressError
from entrepot.gateway.events.webhooks.sink_connection import MAX_HEAD, LongHeadError


def words_of(error: Exception, timeout_seconds: float) -> str:
    """Return the reason of a failure, without the text of libraries."""
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_seconds:g} s"
    if isinstance(error, ForbiddenAddressError):
        return f"cannot connect: {error}"
    if isinstance(error, aiohttp.InvalidURL):
        return "its URL cannot be sent to: the host is not a canonical name or address"
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return _certificate_words(error)
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return "cannot connect: TLS was not agreed on"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"cannot connect: {NO_ADDRESS}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot connect: {_system_words(error.os_error)}"
    if isinstance(error, LongHeadError):
        return f"the head of its answer is longer than {MAX_HEAD // 1024} KiB"
    if isinstance(error, aiohttp.ClientResponseError):
        return "its answer is not HTTP"
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return "the connection ended before the answer did"
    if isinstance(error, OSError):
        return f"the connection broke: {_system_words(error)}"
    return "the request could not be made"


def _certificate_words(error: Exception) -> str:
    cause = error.certificate_error if isinstance(error, aiohttp.ClientConnectorCertificateError) else error
    said = " ".join(str(getattr(cause, "verify_message", "")).split())
    return "cannot connect: its certificate is not good" + (f" ({said})" if said else "")


def _system_words(error: OSError) -> str:
    return os.strerror(error.errno).lower() if error.errno is not None and error.errno > 0 else "there is no way to it"
