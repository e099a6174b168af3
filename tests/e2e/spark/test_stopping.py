"""SIGTERM ends the command cleanly, whatever it is at, and what goes wrong is told in words of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import product
from pathlib import Path

import orjson
import pytest

from tests.support.spark.ingest_job import START_SECONDS, Job
from tests.support.spark.topic_log import TopicWriter
from tests.support.waiting import wait_until

RAW = ("Traceback", "Py4J", "py4j")
"""Words of stacks of Python."""
JAVA = ("\tat java.", "\tat org.apache", "SQLSTATE")
"""Words of those of Java, which writes them itself where it gets the signal, too."""


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_sigterm_ends_it_cleanly(
    ingest: Callable[..., list[str]], writer: TopicWriter, topic: str, tmp_path: Path
) -> None:
    writer.append(topic, [orjson.dumps({"device": "x", "v": number}) for number in range(2000)])
    table = tmp_path / "factory"
    for moment, is_group in product(("starting Spark", "device=", "batch"), (False, True)):
        log = tmp_path / f"{moment.replace(' ', '-')}-{is_group}.log"
        job = Job(ingest(topic, table, "--trigger", "1s", "--max-messages", "100"), log, tmp_path / "none")
        job.start()
        assert job.process is not None
        wait_until(lambda log=log, moment=moment: moment in log.read_text(), "it is there", START_SECONDS)  # type: ignore[misc]
        if is_group:  # as a service manager does it
            os.killpg(job.process.pid, signal.SIGTERM)
        else:
            job.process.send_signal(signal.SIGTERM)
        code = job.process.wait(START_SECONDS)
        said = log.read_text()
        assert code == 0, said
        assert not [word for word in (RAW if is_group else (*RAW, *JAVA)) if word in said], said
