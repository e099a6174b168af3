"""A receiver of webhooks as a process of its own: it answers as it is told, and remembers what it was sent.

`PUT /behave/{name}` says how `/hook/{name}` answers, `GET /seen/{name}` what came.  Everything is in memory.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs

from fastapi import FastAPI, Request, Response

from tests.support.http.client import http_client
from tests.support.waiting import PATIENCE_SECONDS, wait_until


def build() -> Any:
    """The application."""
    app = FastAPI()
    behaviours: dict[str, dict[str, Any]] = defaultdict(dict)
    seen: dict[str, list[dict[str, Any]]] = defaultdict(list)

    @app.put("/behave/{name}")
    async def behave(name: str, request: Request) -> dict[str, str]:
        behaviours[name] = await request.json()
        return {}

    @app.get("/seen/{name}")
    async def show(name: str) -> list[dict[str, Any]]:
        return seen[name]

    @app.get("/bodies/{name}")
    async def show_bodies(name: str, after: int = 0) -> list[str]:
        return [base64.b64decode(each["body"]).decode("utf-8", "replace") for each in seen[name][after:]]

    @app.options("/hook/{name}")
    async def shake_hands(name: str, request: Request) -> Response:
        told = behaviours[name]
        seen[name + ":options"].append({"headers": dict(request.headers), "target": target_of(request)})
        if told.get("options_stall"):
            await asyncio.sleep(told["options_stall"])
        if told.get("consent") is False:
            return Response(status_code=200)
        allowed = {"webhook-allowed-origin": told.get("origin", request.headers.get("webhook-request-origin", ""))}
        if "rate" in told:
            allowed["webhook-allowed-rate"] = str(told["rate"])
        return Response(status_code=told.get("options_status", 200), headers=allowed)

    @app.api_route("/hook/{name}", methods=["POST", "PUT"])
    async def hook(name: str, request: Request) -> Response:
        body = await request.body()
        told = behaviours[name]
        number = len(seen[name])
        seen[name].append(
            {
                "method": request.method,
                "headers": dict(request.headers),
                "body": base64.b64encode(body).decode(),
                "at": time.monotonic(),
                "path": request.url.path,
                "target": target_of(request),
            }
        )
        steps = told.get("steps", [])
        step = steps[number] if number < len(steps) else told.get("then", {"status": 200})
        if step.get("stall"):
            await asyncio.sleep(step["stall"])
        while step.get("holds") and behaviours[name] is told:  # until it is told something else
            await asyncio.sleep(0.01)
        if request.headers.get("authorization") in told.get("refuses", ()):
            return Response(status_code=401)
        content = b"x" * step.get("size", 0)
        return Response(content, status_code=step["status"], headers=step.get("headers", {}))

    @app.post("/token")
    async def token(request: Request) -> dict[str, Any]:
        form = (await request.body()).decode()
        seen["token"].append({"headers": dict(request.headers), "body": form, "target": target_of(request)})
        return {"access_token": f"t{len(seen['token'])}", "token_type": "bearer", "expires_in": 3600}

    @app.post("/rotating/{name}")
    async def rotate(name: str, request: Request) -> Response:
        """Each refresh token is good for once; another one comes with its token."""
        form = parse_qs((await request.body()).decode())
        number = len(seen[f"{name}:rotating"])
        if form.get("refresh_token") != [f"r{number}"]:
            return Response(b'{"error":"invalid_grant"}', status_code=400)
        seen[f"{name}:rotating"].append({})
        lasts = behaviours[name].get("expires_in", 3600)
        answer = {"access_token": f"t{number + 1}", "expires_in": lasts, "refresh_token": f"r{number + 1}"}
        return Response(json.dumps(answer), media_type="application/json")

    return app


def target_of(request: Request) -> str:
    """The target in the request's first line, as it came."""
    path, query = request.scope["raw_path"], request.scope["query_string"]
    return (path + b"?" + query if query else path).decode()


class WebhookReceiver:
    """The process, and what it is told and asked."""

    def __init__(self, port: int = 0, host: str = "127.0.0.1") -> None:
        self._reading, writing = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.http.webhook_receiver", str(port), str(writing), host],
            pass_fds=[writing],
            stdin=subprocess.DEVNULL,
        )
        os.close(writing)
        self.port = int(os.read(self._reading, 16))
        self.url = f"http://{host}:{self.port}"
        self._client = http_client(self.url)

    def hook(self, name: str) -> str:
        return f"{self.url}/hook/{name}"

    def behave(self, name: str, **told: Any) -> None:
        assert self._client.put(f"/behave/{name}", json=told).status_code == 200

    def seen(self, name: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._client.get(f"/seen/{name}").json()
        return found

    def bodies(self, name: str, after: int = 0) -> list[str]:
        """Of requests, from one on."""
        found: list[str] = self._client.get(f"/bodies/{name}", params={"after": after}).json()
        return found

    def wait(self, name: str, count: int, seconds: float = PATIENCE_SECONDS) -> list[dict[str, Any]]:
        """Until so many requests have come."""
        return self.wait_until(name, lambda found: len(found) >= count, seconds)

    def wait_until(
        self, name: str, condition: Callable[[list[dict[str, Any]]], bool], seconds: float = PATIENCE_SECONDS
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []

        def is_there() -> bool:
            found[:] = self.seen(name)
            return condition(found)

        wait_until(is_there, lambda: f"{len(found)} requests came: {found[-3:]}", seconds)
        return found

    def stop(self) -> None:
        self._client.close()
        self.process.kill()
        self.process.wait()
        os.close(self._reading)


def body_of(request: dict[str, Any]) -> bytes:
    return base64.b64decode(request["body"])


def events_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a request in any mode; those of binary mode with their attributes only."""
    kind = request["headers"].get("content-type", "")
    if kind.startswith("application/cloudevents-batch"):
        found: list[dict[str, Any]] = json.loads(body_of(request))
        return found
    if kind.startswith("application/cloudevents"):
        return [json.loads(body_of(request))]
    return [{name[3:]: value for name, value in request["headers"].items() if name.startswith("ce-")}]


def main() -> None:
    import socket

    import uvicorn

    bound = socket.create_server((sys.argv[3], int(sys.argv[1])))
    os.write(int(sys.argv[2]), str(bound.getsockname()[1]).encode())
    os.close(int(sys.argv[2]))
    config = uvicorn.Config(build(), log_level="warning", access_log=False, timeout_keep_alive=120)
    asyncio.run(uvicorn.Server(config).serve(sockets=[bound]))


if __name__ == "__main__":
    main()
