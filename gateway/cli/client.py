"""The commands' way to a running server: its HTTP API, with refusals turned into `CommandError`."""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import quote

import typer

from gateway.cli.errors import USAGE, CommandError

DEFAULT_SERVER = "http://127.0.0.1:8080"
TIMEOUT_SECONDS = 30.0

ServerOption = Annotated[
    str, typer.Option("--server", envvar="ENTREPOT_SERVER", metavar="URL", help="Address of the server's HTTP door.")
]


def segment(name: str) -> str:
    """A name as one segment of a path: `%DLQ%workers` is `%25DLQ%25workers`."""
    return quote(name, safe="")


class Client:
    """Requests to one server."""

    def __init__(self, server: str) -> None:
        self._server = (server if "://" in server else f"http://{server}").rstrip("/")

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def put(self, path: str, body: Any) -> Any:
        return self.request("PUT", path, body=body)

    def delete(self, path: str) -> None:
        self.request("DELETE", path)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, str | int | float] | None = None,
        body: Any = None,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
        wait_seconds: float = 0,
    ) -> Any:
        """The answer's JSON, or None if it has no body.  `wait_seconds` is how long the server may hold it back."""
        import httpx2  # slow to import: only for commands that ask a server

        headers = dict(headers or {})
        if body is not None:
            content = json.dumps(body).encode()
            headers["content-type"] = "application/json"
        try:
            response = httpx2.request(
                method,
                self._server + path,
                params=query,
                content=content,
                headers=headers,
                timeout=TIMEOUT_SECONDS + wait_seconds,
                trust_env=False,
            )
        except httpx2.TimeoutException as error:
            raise CommandError(f"{self._server} did not answer in time") from error
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise CommandError(f"{self._server!r} is not the address of a server: {error}", USAGE) from error
        except httpx2.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise CommandError(f"cannot reach {self._server}: {reason} (is 'entrepot serve' running?)") from error
        if not response.is_success:
            raise CommandError(_refusal(response.status_code, response.reason_phrase, response.content))
        return self._decoded(response.content)

    def _decoded(self, content: bytes) -> Any:
        if not content.strip():
            return None
        try:
            return json.loads(content)
        except ValueError as error:
            raise CommandError(f"{self._server} answered something that is not JSON: is it Entrepôt?") from error


def _refusal(status: int, phrase: str, content: bytes) -> str:
    """The server's own sentence (RFC 9457 `detail`, else `title`), else the status line."""
    try:
        problem = json.loads(content)
    except ValueError:
        problem = None
    if isinstance(problem, dict):
        sentence = problem.get("detail") or problem.get("title")
        if isinstance(sentence, str):
            return " ".join(sentence.split())
    return f"the server answered {status} {phrase}".rstrip()
