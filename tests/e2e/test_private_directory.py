"""A real server, started with an open umask, and again over a directory that is open: nobody else gets in."""

from __future__ import annotations

import stat
from pathlib import Path

import httpx2

from tests.e2e.http.steps import event, publish, receive
from tests.support.processes.deployment import Deploy, Deployment
from tests.support.waiting import PATIENCE_SECONDS


def open_to_others(root: Path) -> list[str]:
    return [
        f"{stat.S_IMODE(found.lstat().st_mode):o} {found.relative_to(root)}"
        for found in (root, *root.rglob("*"))
        if found.lstat().st_mode & 0o077
    ]


def use(server: Deployment, topic: str) -> None:
    with httpx2.Client(base_url=f"http://{server.ports['http']}", timeout=PATIENCE_SECONDS, trust_env=False) as client:
        assert client.put(f"/api/v1/namespaces/default/topics/{topic}").status_code == 201
        publish(client, topic, event(1), event(2))
        assert receive(client, topic, "workers")


def test_stores_are_for_their_user_alone(deploy: Deploy, tmp_path: Path) -> None:
    with deploy(tmp_path) as server:
        use(server, "first")
        roots = [found.parent for found in tmp_path.rglob("store.json")]
        assert roots and [open_to_others(root) for root in roots] == [[]] * len(roots)
        server.terminate()
        server.wait()
        for root in roots:  # as an earlier version left it
            for found in (root, *root.rglob("*")):
                found.chmod(0o755 if found.is_dir() else 0o644)
        server.restart()
        use(server, "second")
        assert [open_to_others(root) for root in roots] == [[]] * len(roots)
        assert server.log_text().count("the data directory was open to other users: it is closed") == len(roots)
        server.kill()
        server.restart()
        use(server, "third")
        assert [open_to_others(root) for root in roots] == [[]] * len(roots)
        assert server.log_text().count("open to other users") == len(roots)
