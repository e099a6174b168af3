"""The commands' way to a running server: its HTTP API, with refusals turned into `CommandError`."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from gateway.cli.errors import USAGE, CommandError

if TYPE_CHECKING:
    import httpx2

DEFAULT_SERVER = "http://127.0.0.1:8080"
TIMEOUT_SECONDS = 30.0
TOKEN_VARIABLE = "ENTREPOT_TOKEN"
USER_VARIABLE = "ENTREPOT_USER"
PASSWORD_VARIABLE = "ENTREPOT_PASSWORD"

ServerOption = Annotated[
    str, typer.Option("--server", envvar="ENTREPOT_SERVER", metavar="URL", help="Address of the server's HTTP door.")
]


def segment(name: str) -> str:
    """A name as one segment of a path: `%DLQ%workers` is `%25DLQ%25workers`."""
    return quote(name, safe="")


class Client:
    """Requests to one server.  `timeout_seconds`: how long it may take to answer what it can answer at once."""

    def __init__(self, server: str, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._credentials = _credentials(os.environ)
        self._timeout_seconds = timeout_seconds
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
        headers = dict(headers or {})
        if body is not None:
            content = json.dumps(body).encode()
            headers["content-type"] = "application/json"
        timeout = self._timeout_seconds + wait_seconds
        with self._sent(method, path, timeout, params=query, content=content, headers=headers) as response:
            return self._decoded(response.read())

    def stream(self, path: str) -> Iterator[bytes]:
        """The body of a GET, piece by piece."""
        with self._sent("GET", path, self._timeout_seconds) as response:
            yield from response.iter_bytes()

    @contextmanager
    def _sent(self, method: str, path: str, timeout: float, **options: Any) -> Iterator[httpx2.Response]:
        """An answer that is no refusal; all that goes wrong while it is read is told in our words."""
        import httpx2  # slow to import: only for commands that ask a server

        try:
            url = self._server + path
            headers = {**self._credentials, **(options.pop("headers", None) or {})}
            with httpx2.stream(method, url, timeout=timeout, trust_env=False, headers=headers, **options) as response:
                if not response.is_success:
                    raise CommandError(_refusal(response.status_code, response.reason_phrase, response.read()))
                yield response
        except httpx2.TimeoutException as error:
            raise CommandError(f"{self._server} did not answer in time") from error
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise CommandError(f"{self._server!r} is not the address of a server: {error}", USAGE) from error
        except httpx2.RemoteProtocolError as error:
            raise CommandError(f"{self._server} broke off its answer: {error}") from error
        except httpx2.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise CommandError(f"cannot reach {self._server}: {reason} (is 'entrepot serve' running?)") from error

    def _decoded(self, content: bytes) -> Any:
        if not content.strip():
            return None
        try:
            return json.loads(content)
        except ValueError as error:
            raise CommandError(f"{self._server} answered something that is not JSON: is it Entrepôt?") from error


def _credentials(environ: Mapping[str, str]) -> dict[str, str]:
    """The header with what ENTREPOT_TOKEN, or ENTREPOT_USER and ENTREPOT_PASSWORD, say: not for the command line, which
    others on the machine can see."""
    if token := environ.get(TOKEN_VARIABLE):
        return {"authorization": f"Bearer {token}"}
    if user := environ.get(USER_VARIABLE):
        pair = f"{user}:{environ.get(PASSWORD_VARIABLE, '')}"
        return {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    return {}


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
