"""A job that runs at a terminal, or in a log: until it has ended, or a signal ends it."""

from __future__ import annotations

from contextlib import suppress

from rich.console import Console
from rich.live import Live
from rich.text import Text

from entrepot.domain.printable import printable
from entrepot.spark_ingest.job.reasons import JAVA_IS_GONE
from entrepot.spark_ingest.job.run import start, watch
from entrepot.spark_ingest.job.watching import JobMetrics, JobProgress, shown
from entrepot.spark_ingest.job_of_options import GivenJob
from entrepot.spark_ingest.session import open_session
from entrepot.spark_ingest.stopping import Stopping


class _Display:
    """A job's progress on standard error: a picture that changes on a terminal, else a line for each batch.  `rows` of
    all batches are counted."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self.picture = Live(console=self._console, auto_refresh=False, transient=True)
        self.rows = 0

    def say(self, text: str) -> None:
        self._console.print(Text(printable(text)), soft_wrap=True)  # a line of a log is a line

    def say_start(self, master: str) -> None:
        text = f"starting Spark at {master}"
        if not self._console.is_terminal:
            self.say(text)
        self.picture.update(Text(printable(text)), refresh=True)

    def show(self, progress: JobProgress) -> None:
        self.rows += progress.rows
        if self._console.is_terminal:
            self.picture.update(shown(progress, self.rows), refresh=True)
        else:
            lag = sum(progress.lags.values())
            self.say(f"batch {progress.batch}: {progress.rows} rows, {progress.rate:.0f} rows/s, {lag} waiting")


def run_job(job: GivenJob) -> int:
    """Run the job; return the number of messages that this run has put into the table."""
    settings, display, stopping = job.settings, _Display(), Stopping()
    figures = JobMetrics(*job.metrics) if job.metrics else None

    def show(progress: JobProgress) -> None:
        if figures is not None:
            figures.update(progress)
        display.show(progress)

    with stopping.listening(), display.picture:
        display.say_start(job.master)
        session = open_session(job.master, app_name=f"entrepot {settings.table}", java=job.java, settings=job.conf)
        stopping.has_spark = True
        try:
            running = start(
                session, settings, job.trigger, display.say, takes_over=job.takes_over, check=stopping.check
            )
            names = running.settings.columns
            display.say(
                f"device={names.device or 'the sub-topic'} sequence={names.sequence or '-'} "
                f"time={names.time or 'when it was published'} metrics={','.join(names.metrics) or '-'}"
            )
            watch(running, show, lambda: stopping.is_wanted)
        finally:
            if figures is not None:
                figures.close()
            with suppress(*JAVA_IS_GONE):
                session.stop()
    display.say(f"{display.rows:,} messages are in {settings.table}")
    return display.rows
