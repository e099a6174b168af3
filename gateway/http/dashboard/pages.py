"""`/dashboard/`: the files of the dashboard.

ADR 31: a request is a page's if the browser says so.  Invariant: they hold no data, so everybody may read them.
"""

from __future__ import annotations

import asyncio
import hashlib
from functools import cache
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import orjson
from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from entrepot.gateway.http.dashboard.page_headers import PAGE_HEADERS
from entrepot.gateway.http.dashboard.page_paths import DASHBOARD, DASHBOARD_FILES, OPERATIONS_FILE, ROOT
from entrepot.gateway.operations.all_nouns import NOUNS
from entrepot.gateway.operations.row.hints import hints_of_rows

_MEDIA_TYPES: Final = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
"""Media types by suffix.  Files of other kinds are not served."""
_START: Final = "index.html"
_HERE: Final = "dashboard/"
"""The dashboard, seen from its neighbours: a relative address holds behind any path prefix of a proxy."""


def dashboard_routes() -> APIRouter:
    """The dashboard's files, and the ways to them, without access control."""
    served = _files(files("entrepot.gateway.http.dashboard").joinpath("page"))

    async def file(request: Request) -> Response:
        name = request.path_params["file"] or _START
        if name == OPERATIONS_FILE:
            return _answer(request, await asyncio.to_thread(_operations), "application/json")
        found = served.get(name)
        if found is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return _answer(request, found.read_bytes(), _MEDIA_TYPES[_suffix(found.name)])

    router = APIRouter()
    router.add_route(ROOT, _root, methods=["GET"], include_in_schema=False)
    router.add_route(DASHBOARD, _moved, methods=["GET"], include_in_schema=False)
    router.add_route(DASHBOARD_FILES, file, methods=["GET"], include_in_schema=False)
    return router


def _files(directory: Traversable, prefix: str = "") -> dict[str, Traversable]:
    """The served files of a directory and of those in it, by their path."""
    found: dict[str, Traversable] = {}
    for each in directory.iterdir():
        if each.is_dir():
            found |= _files(each, f"{prefix}{each.name}/")
        elif _suffix(each.name) in _MEDIA_TYPES:
            found[prefix + each.name] = each
    return found


def _suffix(name: str) -> str:
    return name.rpartition(".")[2]


@cache
def _operations() -> bytes:
    return orjson.dumps(hints_of_rows(row for noun in NOUNS for row in noun.operations))


def _answer(request: Request, content: bytes, media_type: str) -> Response:
    tag = f'"{hashlib.blake2b(content, digest_size=16).hexdigest()}"'
    headers = {**PAGE_HEADERS, "etag": tag}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(content, media_type=media_type, headers=headers)


async def _root(request: Request) -> Response:
    """Browsers go on to the dashboard; nothing is here for others."""
    if "text/html" not in request.headers.get("accept", ""):
        raise HTTPException(HTTPStatus.NOT_FOUND)
    return await _moved(request)


async def _moved(request: Request) -> Response:
    headers = {"location": _HERE, "vary": "Accept", "cache-control": "no-cache"}
    return Response(status_code=HTTPStatus.TEMPORARY_REDIRECT, headers=headers)
