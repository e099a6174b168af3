"""The dashboard's files: who gets them, behind which policy, and that they are whole."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urljoin

import httpx2

from tests.support.cases import cases
from tests.support.http.server import HttpServer

PAGE = Path(__file__).resolve().parents[3] / "gateway" / "http" / "dashboard" / "page"
SERVED = sorted(str(path.relative_to(PAGE)) for path in PAGE.rglob("*.*") if path.suffix != ".md")
REFERENCE = re.compile(r'(?:^import [^"]*|<link [^>]*href=|<script [^>]*src=)"([^"]+)"', re.MULTILINE)
BROWSER = "text/html,application/xhtml+xml,*/*;q=0.8"
LONGEST_LINES = 400


@cases("name", SERVED)
def test_every_file_is_served_behind_the_policy(client: httpx2.Client, name: str) -> None:
    answer = client.get(f"/dashboard/{name}")
    assert answer.status_code == 200 and answer.content == (PAGE / name).read_bytes()
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; ")
    for part in (
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ):
        assert part in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert len(answer.text.splitlines()) <= LONGEST_LINES


@cases("name", SERVED)
def test_what_a_file_refers_to_is_served(client: httpx2.Client, name: str) -> None:
    at = f"/dashboard/{name}"
    for reference in REFERENCE.findall((PAGE / name).read_text()):
        assert client.get(urljoin(at, reference)).status_code == 200, reference


@cases("name", SERVED)
def test_no_file_does_what_the_policy_refuses(name: str) -> None:
    text = (PAGE / name).read_text()
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function\b| style=|https?://(?!www\.w3\.org/2000/svg)",
        text,
    )


def test_a_file_that_did_not_change_is_not_sent_again(client: httpx2.Client) -> None:
    first = client.get("/dashboard/app.js")
    assert first.headers["cache-control"] == "no-cache"
    again = client.get("/dashboard/app.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = client.get("/dashboard/app.js", headers={"if-none-match": '"another"'})
    assert other.status_code == 200


def test_the_hints_of_operations_are_a_file_like_the_others(client: httpx2.Client) -> None:
    answer, page = client.get("/dashboard/operations.json"), client.get("/dashboard/app.js")
    assert answer.json()["getTopic"]["path"] == "/api/v1/topics/{name}"
    for name in ("content-security-policy", "x-content-type-options", "referrer-policy", "cache-control"):
        assert answer.headers[name] == page.headers[name]
    again = client.get("/dashboard/operations.json", headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_media_types(client: httpx2.Client) -> None:
    kinds = {
        name: client.get(f"/dashboard/{name}").headers["content-type"]
        for name in ("", "app.js", "mark.svg", "operations.json")
    }
    assert kinds == {
        "": "text/html; charset=utf-8",
        "app.js": "text/javascript; charset=utf-8",
        "mark.svg": "image/svg+xml",
        "operations.json": "application/json",
    }


@cases(
    "path",
    [
        "README.md",
        "pages",
        "pages/",
        "nothing.js",
        "../pages.py",
        "%2e%2e/pages.py",
        "..%2Fpages.py",
        "styles/../app.js",
        "app.js/",
    ],
)
def test_nothing_else_is_served(server: HttpServer, client: httpx2.Client, path: str) -> None:
    answer = client.send(httpx2.Request("GET", f"{server.url}/dashboard/{path}"))
    found = answer.status_code == 200
    assert not found or (answer.content == (PAGE / "app.js").read_bytes() and "/../" in f"/{path}")
    assert found or answer.headers["content-type"] == "application/problem+json"


def test_the_ways_to_it_hold_behind_a_path_prefix(client: httpx2.Client) -> None:
    for path in ("/dashboard", "/"):
        answer = client.get(path, headers={"accept": BROWSER})
        assert (answer.status_code, answer.headers["location"]) == (307, "dashboard/")
        assert urljoin(f"https://proxy.example/prefix{path}", answer.headers["location"]) == (
            "https://proxy.example/prefix/dashboard/"
        )


def test_programs_find_nothing_at_the_root(client: httpx2.Client) -> None:
    answer = client.get("/", headers={"accept": "*/*"})
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


@cases("path", ["/", "/dashboard", "/dashboard/", "/dashboard/app.js"])
def test_other_pages_may_link_to_it_and_do_no_more(client: httpx2.Client, path: str) -> None:
    link = {
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
        "sec-fetch-dest": "document",
        "accept": BROWSER,
    }
    assert client.get(path, headers=link).status_code in (200, 307)
    for used in ({"sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"}, {"sec-fetch-dest": "iframe"}):
        assert client.get(path, headers={**link, **used}).status_code == 403
