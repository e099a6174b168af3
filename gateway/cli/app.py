"""The command `entrepot`: its commands put together, and its exit codes.

Exit codes: 0 done, 1 refused or failed, 2 wrong usage or settings, 130 interrupted, 141 the reader of the output ended.
Errors are one readable line each on standard error; a traceback is shown only with ENTREPOT_DEBUG=1.

ADR 79: an operation is written once, and most commands are made of its row. Invariant: help loads no event loop, no
settings and no log.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from entrepot.gateway.cli.client import Client
from entrepot.gateway.cli.client_tls import CaOption, CertOption, ClientTls, KeyOption
from entrepot.gateway.cli.commands import CommandGroup
from entrepot.gateway.cli.deployment import broker, controller, gateway, nameserver, serve
from entrepot.gateway.cli.errors import FAILED, OK, CommandError
from entrepot.gateway.cli.output import print_line, print_text
from entrepot.gateway.cli.ping import ping
from entrepot.gateway.cli.streams import OutputError, discard_output, open_streams
from entrepot.gateway.cli.version import print_version, version

INTERRUPTED: Final = 130
NO_READER: Final = 141
"""As of a program that SIGPIPE ends: `ls`, `grep` and `git` end so before `head`."""

app = typer.Typer(
    name="entrepot",
    cls=CommandGroup,
    help="Entrepôt: a messaging gateway in front of one durable log.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def entrepot(
    show_version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    ca: CaOption = None,
    cert: CertOption = None,
    key: KeyOption = None,
) -> None:
    """Entrepôt: a messaging gateway in front of one durable log."""
    Client.tls = ClientTls.of(ca, cert, key, os.environ)


app.command()(serve)
app.command()(nameserver)
app.command()(controller)
app.command()(broker)
app.command()(gateway)
app.command()(ping)
app.command()(version)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    code = OK
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except OutputError as failure:
        discard_output()
        if failure.is_of_reader:
            return code or NO_READER
        done = (
            "the server has done what it was asked until then"
            if Client.has_changed
            else "the server was asked for no change"
        )
        _say(f"cannot write to standard output: {failure}; {done}")
        return code or FAILED
    return code


def _run(arguments: Sequence[str] | None) -> int:
    try:
        outcome = app(args=arguments, prog_name="entrepot", standalone_mode=False)
    except CommandError as error:
        _say(error.message)
        return error.exit_code
    except SystemExit as ended:  # the parser's own: completion scripts end the process
        return ended.code if isinstance(ended.code, int) else OK if ended.code is None else FAILED
    except typer.Abort:
        _say("stopped: nothing was done")
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except OutputError:
        raise
    except Exception as error:  # noqa: BLE001 - the last frame: everything below has had its say
        return _complain(error)
    return outcome if isinstance(outcome, int) else OK


def main() -> None:
    """Run as the console script."""
    open_streams()
    code = run()
    if "pyarrow" in sys.modules:  # its threads may abort a process that ends while they do
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _complain(error: Any) -> int:
    """Print one line for a usage error of the parser, or for an unexpected fault."""
    if not hasattr(error, "format_message"):
        if os.environ.get("ENTREPOT_DEBUG"):
            print_text("".join(traceback.format_exception(error)), err=True)
        _say(f"unexpected {type(error).__name__}: {error} (ENTREPOT_DEBUG=1 shows where)")
        return FAILED
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()  # not a mistake to report: the help
    else:
        command = getattr(getattr(error, "ctx", None), "command_path", "entrepot")
        _say(f"{error.format_message().rstrip('.')}. See '{command} --help'.")
    return int(error.exit_code)


def _say(text: str) -> None:
    for line in text.rstrip("\n").split("\n"):
        print_line(f"entrepot: {line}", err=True)
