"""The log of the process: structlog on standard error, for people or for machines.

Code logs through `structlog.get_logger()`; the standard library's loggers (uvicorn, asyncio) come out in the same form.
Standard output stays free for what commands print.

Values come from any client: none reaches the stream with a control character in it, and none begins a line. Lines that
clients can cause are held to a rate (`log_floods.py`).
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import MutableMapping
from typing import Any, Literal, TextIO

import orjson
import structlog

from entrepot.domain.printable import printable, printable_json, printable_lines
from entrepot.gateway.log_floods import FloodFilter, FloodProcessor, Floods

Format = Literal["console", "json"]


def configure_logging(level: str = "info", log_format: Format = "console", stream: TextIO | None = None) -> None:
    """Set up structlog and the standard library's root logger; may be called again."""
    stream = sys.stderr if stream is None else stream
    least = logging.getLevelNamesMapping()[level.upper()]
    floods = Floods()
    common: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    final = _final_processors(log_format, stream)

    structlog.configure(
        processors=[FloodProcessor(floods), *common, *final],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )

    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*common, structlog.stdlib.add_logger_name, structlog.stdlib.ExtraAdder(("suppressed",))],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *final],
        )
    )
    handler.addFilter(FloodFilter(floods))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(least)
    for name in ("uvicorn.access", "httpx2"):  # a line for each request
        logging.getLogger(name).setLevel(max(least, logging.WARNING))
    logging.captureWarnings(True)


def _final_processors(log_format: Format, stream: TextIO) -> list[Any]:
    if log_format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_json)]
    renderer = structlog.dev.ConsoleRenderer(colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback)
    return [structlog.processors.format_exc_info, _made_printable, renderer]


class _Shown:
    """The form of a value in the log: the renderer asks for its `repr`."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _made_printable(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in event.items():
        if name in ("exception", "stack"):  # multi-line, and no line may look like the first of another event
            shown[name] = "\n".join(f"  {line}" for line in printable_lines(str(value)).split("\n"))
        elif name in ("event", "logger", "timestamp", "level"):
            shown[name] = printable(str(value))
        elif value is None or isinstance(value, int | float) or (isinstance(value, str) and value.isprintable()):
            shown[printable(name)] = value
        else:
            shown[printable(name)] = _Shown(printable(repr(value)))
    return shown


def _json(event: Any, **_: Any) -> str:
    try:
        text = orjson.dumps(event, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # a name that is not Unicode
        text = json.dumps(event, default=str)
    return printable_json(text)
