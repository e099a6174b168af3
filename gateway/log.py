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
from collections.abc import Callable, MutableMapping
from typing import Any, Literal, TextIO, cast

import orjson
import structlog

from entrepot.domain.printable import printable, printable_json, printable_lines
from entrepot.gateway.log_floods import FloodFilter, FloodProcessor, Floods
from entrepot.gateway.log_stream import LogStream

Format = Literal["console", "json"]
Instead = Callable[[str, object, Exception], None]
"""Writer of a line by level and event, instead of one whose rendering failed."""


_stream = LogStream(None)


def lost_lines() -> int:
    """Return the number of lines that this process could not write into its log."""
    return _stream.lost


def configure_logging(level: str = "info", log_format: Format = "console", stream: TextIO | None = None) -> None:
    """Set up structlog and the standard library's root logger; may be called again. Neither raises into its caller,
    whatever becomes of the stream (`log_stream.py`), or of a value while it is rendered."""
    global _stream
    least = logging.getLevelNamesMapping()[level.upper()]
    floods = Floods()
    common: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]

    def plain(level: str, event: object, **facts: object) -> str:
        return f"{_rendered([*common, *final], level, {'event': _text(event), **facts})}\n"

    out = LogStream(
        sys.stderr if stream is None else stream, lambda lost: plain("warning", "lines were lost", lost=lost)
    )
    final = _final_processors(log_format, is_terminal=out.isatty())
    _stream = out

    def instead(level: str, event: object, fault: Exception) -> None:
        """Write a line instead of one that cannot be rendered."""
        try:
            out.write(plain(level, event, problem=f"the rest of this line cannot be shown: {type(fault).__name__}"))
        except Exception:  # noqa: BLE001 - nothing of the log reaches who logs
            out.lose()

    structlog.configure(
        processors=[FloodProcessor(floods), *common, *final],
        wrapper_class=_never_raising(least, instead),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", out)),
        cache_logger_on_first_use=False,
    )
    handler = LogHandler(out, instead)
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


def _final_processors(log_format: Format, *, is_terminal: bool) -> list[Any]:
    if log_format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(serializer=_json)]
    renderer = structlog.dev.ConsoleRenderer(colors=is_terminal, exception_formatter=structlog.dev.plain_traceback)
    return [structlog.processors.format_exc_info, _made_printable, renderer]


def _rendered(processors: list[Any], level: str, event: Any) -> Any:
    for processor in processors:
        event = processor(None, level, event)
    return event


def _never_raising(least: int, instead: Instead) -> type[Any]:
    """Return structlog's wrapper for lines of a level, which calls `instead` for one that cannot be rendered."""
    base = structlog.make_filtering_bound_logger(least)

    def guarded(level: str) -> Callable[..., Any]:
        method = getattr(base, level)

        def call(self: Any, event: object = None, *args: Any, **facts: Any) -> Any:
            try:
                return method(self, event, *args, **facts)
            except Exception as fault:  # noqa: BLE001 - whatever a value does when it is asked for its text
                return instead(level, event, fault)

        return call

    levels = logging.getLevelNamesMapping()
    names = [name for name in ("debug", "info", "warning", "error", "critical") if levels[name.upper()] >= least]
    return type("NeverRaising", (base,), {name: guarded(name) for name in names})


class LogHandler(logging.StreamHandler[Any]):
    """The standard library's handler, which calls `instead` for a record that cannot be rendered."""

    def __init__(self, stream: LogStream, instead: Instead) -> None:
        super().__init__(stream)
        self._instead = instead

    def handle(self, record: logging.LogRecord) -> bool:
        try:
            return super().handle(record)
        except Exception as fault:  # noqa: BLE001 - as above; the filter asks for texts, too
            self._instead(record.levelname.lower(), record.msg, fault)
            return False

    def handleError(self, record: logging.LogRecord) -> None:
        if (fault := sys.exception()) is not None:
            raise fault


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
            shown[printable(name)] = _Shown(printable(_text(value, repr)))
    return shown


def _text(value: object, form: Callable[[object], str] = str) -> str:
    """The text of a value, whose own code may fail."""
    try:
        return form(value)
    except Exception as fault:  # noqa: BLE001
        return f"<{type(value).__name__} that cannot be shown: {type(fault).__name__}>"


def _json(event: Any, **_: Any) -> str:
    try:
        text = orjson.dumps(event, default=_text, option=orjson.OPT_NON_STR_KEYS).decode()
    except TypeError:  # a name that is not Unicode, or a circle
        try:
            text = json.dumps(event, default=_text)
        except (TypeError, ValueError, RecursionError):
            text = json.dumps({_text(name): _text(value) for name, value in event.items()})
    return printable_json(text)
