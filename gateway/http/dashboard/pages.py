"""`/dashboard/`: the files of the dashboard.  They hold no data, and everybody may read them."""

from __future__ import annotations

import hashlib
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from entrepot.gateway.http.dashboard.page_headers import PAGE_HEADERS
from entrepot.gateway.http.dashboard.page_paths import DASHBOARD, DASHBOARD_FILES, ROOT

_MEDIA_TYPES: Final = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
"""Media types by suffix.  Files of other kinds are not served."""
_START: Final = "index.html"
_HERE: Final = "dashboard/"
"""The dashboard, seen from its neighbours: a relative address holds behind any path prefix of a proxy."""


def dashboard_routes() -> APIRouter:
    """The dashboard's files, and the ways to them, without access control."""
    served = _files(files("entrepot.gateway.http.dashboard").joinpath("page"))

    async def file(request: Request) -> Response:
        found = served.get(request.path_params["file"] or _START)
        if found is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return _answer(request, found)

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


def _answer(request: Request, file: Traversable) -> Response:
    content = file.read_bytes()
    tag = f'"{hashlib.blake2b(content, digest_size=16).hexdigest()}"'
    headers = {**PAGE_HEADERS, "etag": tag}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return Response(content, media_type=_MEDIA_TYPES[_suffix(file.name)], headers=headers)


async def _root(request: Request) -> Response:
    """Browsers go on to the dashboard; nothing is here for others."""
    if "text/html" not in request.headers.get("accept", ""):
        raise HTTPException(HTTPStatus.NOT_FOUND)
    return await _moved(request)


async def _moved(request: Request) -> Response:
    headers = {"location": _HERE, "vary": "Accept", "cache-control": "no-cache"}
    return Response(status_code=HTTPStatus.TEMPORARY_REDIRECT, headers=headers)
