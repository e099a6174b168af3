"""`python -m tests.conformance.rocketmq.run entrepot|proxy` plays all conversations and keeps the answers.

The page is made of them by `python -m tests.conformance.mqtt.report`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.conformance.rocketmq import kept, servers
from tests.conformance.rocketmq.all_conversations import CONVERSATIONS


def main(name: str) -> None:
    """Play, and keep."""
    with tempfile.TemporaryDirectory() as directory, servers.started(name, Path(directory)) as server:
        kept.keep(name, server.answers(CONVERSATIONS))


if __name__ == "__main__":
    main(sys.argv[1])
