"""The commands' access to a running server: its HTTP API, with refusals turned into `CommandError`."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar
from urllib.parse import quote, urlsplit

import typer

from entrepot.domain.access.evaluator import is_loopback
from entrepot.domain.url import fault_of_url
from entrepot.gateway.cli.client_tls import ClientTls
from entrepot.gateway.cli.errors import USAGE, CommandError

if TYPE_CHECKING:
    import httpx2

DEFAULT_SERVER = "http://127.0.0.1:8080"
TIMEOUT_SECONDS = 30.0
TOKEN_VARIABLE = "ENTREPOT_TOKEN"
USER_VARIABLE = "ENTREPOT_USER"
PASSWORD_VARIABLE = "ENTREPOT_PASSWORD"

ServerOption = Annotated[
    str,
    typer.Option("--server", envvar="ENTREPOT_SERVER", metavar="URL", help="Address of the server's HTTP listener."),
]


def segment(name: str) -> str:
    """A name as one segment of a path: `%DLQ%workers` is `%25DLQ%25workers`."""
    return quote(name, safe="")


class Client:
    """Requests to one server, with `timeout_seconds` for answers that need no waiting. `has_changed`: some request of
    this command was not a GET, and was answered with success."""

    has_changed: ClassVar[bool] = False
    tls: ClassVar[ClientTls] = ClientTls()
    """Of all requests of this command."""

    def __init__(self, server: str, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._credentials = _credentials(os.environ)
        self._timeout_seconds = timeout_seconds
        self._server = (server if "://" in server else f"http://{server}").rstrip("/")
        fault = fault_of_url(self._server, ("http", "https"))
        if fault is not None:
            raise CommandError(f"{self._server!r} is not the address of a server: {fault}", USAGE)

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def pages(self, path: str, **query: str | int | float) -> Iterator[dict[str, Any]]:
        """The pages of a listing, up to its end."""
        after: dict[str, str | int | float] = {}
        while True:
            page = self.request("GET", path, query={**query, **after} or None)
            yield page
            if page.get("next") is None:
                return
            after = {"after": page["next"]}

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
        """Return the answer's JSON, or None without a body. The server may hold the answer back for `wait_seconds`."""
        headers = dict(headers or {})
        if body is not None:
            content = json.dumps(body).encode()
            headers["content-type"] = "application/json"
        timeout = self._timeout_seconds + wait_seconds
        with self._sent(method, path, timeout, params=query, content=content, headers=headers) as response:
            if method != "GET":
                Client.has_changed = True
            return self._decoded(response.read())

    def stream(self, path: str, query: dict[str, str | int | float] | None = None) -> Iterator[bytes]:
        """Yield the body of a GET, piece by piece."""
        with self._sent("GET", path, self._timeout_seconds, params=query) as response:
            yield from response.iter_bytes()

    @contextmanager
    def _sent(self, method: str, path: str, timeout: float, **options: Any) -> Iterator[httpx2.Response]:
        """Yield a successful answer; errors while it is read are told in our words."""
        import httpx2  # slow to import: only for commands that ask a server

        try:
            url = self._server + path
            given = options.pop("headers", None) or {}
            headers = {**self._credentials, **given}
            verify = Client.tls.context() if url.startswith("https:") else True
            sent = {"timeout": timeout, "headers": headers, "verify": verify, **options}
            with httpx2.stream(method, url, trust_env=False, **sent) as response:
                if response.is_success:
                    yield response
                    return
                content = response.read()
            if not self._took_setup_token(content):
                told = _refusal(response.status_code, response.reason_phrase, content)
                raise CommandError(told, status=response.status_code)
            with self._sent(method, path, timeout, **options, headers=given) as response:
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

    def _took_setup_token(self, refusal: bytes) -> bool:
        """Take the setup token from a file that a refusal names, if it is readable here; True if taken. Only a server
        of this machine is believed, and only a file that contains a setup token."""
        if self._credentials or not _is_local(self._server):
            return False
        from entrepot.gateway.security.setup_token import token_in  # slow to import, and rare

        path = _members(refusal).get("setupTokenFile")
        token = token_in(Path(path)) if isinstance(path, str) else None
        if token is not None:
            self._credentials = {"authorization": f"Bearer {token}"}
        return token is not None

    def _decoded(self, content: bytes) -> Any:
        if not content.strip():
            return None
        try:
            return json.loads(content)
        except ValueError as error:
            raise CommandError(f"{self._server} answered something that is not JSON: is it Entrepôt?") from error


def _credentials(environ: Mapping[str, str]) -> dict[str, str]:
    """The header of ENTREPOT_TOKEN, or ENTREPOT_USER and ENTREPOT_PASSWORD, which are not arguments, as others on the
    machine can see those."""
    if token := environ.get(TOKEN_VARIABLE):
        return {"authorization": f"Bearer {token}"}
    if user := environ.get(USER_VARIABLE):
        pair = f"{user}:{environ.get(PASSWORD_VARIABLE, '')}"
        return {"authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
    return {}


def _is_local(server: str) -> bool:
    host = urlsplit(server).hostname or ""
    return host == "localhost" or is_loopback(host)


def _members(problem: bytes) -> dict[str, Any]:
    """The members of a problem (RFC 9457); none of anything else."""
    try:
        found = json.loads(problem)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _refusal(status: int, phrase: str, content: bytes) -> str:
    """The server's own sentence (RFC 9457 `detail`, else `title`), else the status line."""
    problem = _members(content)
    sentence = problem.get("detail") or problem.get("title")
    if isinstance(sentence, str):
        return " ".join(sentence.split())
    return f"the server answered {status} {phrase}".rstrip()
