"""A member of a consumer group that has whole queues, by HTTP."""

from __future__ import annotations

from collections import Counter
from typing import Any

import httpx2


class GroupMember:
    """A member of the group `g`: it pulls its queues from the committed offsets on, and commits."""

    def __init__(self, client: httpx2.Client, topic: str, name: str) -> None:
        self._client, self._topic, self.name = client, topic, name
        self.path = f"/api/v1/groups/g/topics/{topic}/members/{name}"
        self.assignment: dict[str, Any] = {}
        self.offsets: dict[int, int] = {}

    def heartbeat(self, lease_seconds: float = 60, **query: float) -> list[int]:
        """Its queues.  Where the generation is another one, it goes on from the committed offsets."""
        answer = self._client.post(self.path, json={"leaseSeconds": lease_seconds}, params=query)
        assert answer.status_code == 200, answer.text
        known, self.assignment = self.assignment.get("generation"), answer.json()
        if known != self.assignment["generation"]:
            self.offsets = {one["queueId"]: one["committedOffset"] for one in self.assignment["queues"]}
        return list(self.offsets)

    def leave(self) -> None:
        assert self._client.delete(self.path).status_code == 204
        self.assignment = {}

    def pull(self, queue_id: int, limit: int = 3) -> tuple[list[str], int]:
        """Keys of the messages that are next, and where to go on."""
        path = f"/api/v1/topics/{self._topic}/queues/{queue_id}/messages"
        answer = self._client.get(path, params={"offset": self.offsets[queue_id], "limit": limit})
        assert answer.status_code == 200, answer.text
        pulled = answer.json()
        return [key for message in pulled["value"] for key in message["keys"]], pulled["nextOffset"]

    def commit(self, queue_id: int, offset: int, generation: int | None = None) -> httpx2.Response:
        body = {
            "member": self.name,
            "generation": self.assignment["generation"] if generation is None else generation,
            "offsets": [{"queueId": queue_id, "offset": offset}],
        }
        return self._client.post(f"/api/v1/groups/g/topics/{self._topic}/offsets", json=body)

    def work(self, done: Counter[str]) -> None:
        """One batch of each queue; what it pulled counts only if the commit is taken."""
        for queue_id in list(self.offsets):
            keys, following = self.pull(queue_id)
            if not keys:
                continue
            answer = self.commit(queue_id, following)
            if answer.status_code == 200:
                assert answer.json() == {"value": [{"queueId": queue_id, "committedOffset": following}]}
                self.offsets[queue_id] = following
                done.update(keys)
            else:
                assert (answer.status_code, answer.json()["code"]) == (409, "PRECONDITION_FAILED"), answer.text
                return
