"""`/docs`: a page that lists and tries the operations of `/openapi.json`.  It contacts this server only."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Request, Response

_FILES: Final = {
    "/docs": ("index.html", "text/html"),
    "/docs/page.js": ("page.js", "text/javascript"),
    "/docs/page.css": ("page.css", "text/css"),
}
_HEADERS: Final = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


def page_routes() -> APIRouter:
    """The page and its parts, without access control."""
    router = APIRouter()
    for path in _FILES:
        router.add_route(path, _page, methods=["GET"], include_in_schema=False)
    return router


async def _page(request: Request) -> Response:
    name, media_type = _FILES[request.scope["path"]]
    content = files("entrepot.gateway.http.documents").joinpath("page", name).read_bytes()
    return Response(content, media_type=media_type, headers=_HEADERS)
