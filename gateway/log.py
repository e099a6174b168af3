"""What the process says about itself: structlog on standard error, for people or for machines.

Code logs through `structlog.get_logger()`; the standard library's loggers (uvicorn, asyncio) come out in the same
form.  Standard output stays free for what commands print.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, Literal, TextIO

import orjson
import structlog

Format = Literal["console", "json"]


def configure_logging(level: str = "info", log_format: Format = "console", stream: TextIO | None = None) -> None:
    """Set up structlog and the standard library's root logger; may be called again."""
    stream = sys.stderr if stream is None else stream
    least = logging.getLevelNamesMapping()[level.upper()]
    common: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    final = _final_processors(log_format, stream)

    structlog.configure(
        processors=[*common, *final],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )

    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*common, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(least)
    logging.getLogger("uvicorn.access").setLevel(max(least, logging.WARNING))
    logging.captureWarnings(True)


def _final_processors(log_format: Format, stream: TextIO) -> list[Any]:
    if log_format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_json)]
    return [structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback)]


def _json(event: Any, **_: Any) -> str:
    return orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
