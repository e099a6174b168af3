"""The command line: what it asks of a server, what it prints, how it ends."""

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
import typer

from entrepot.gateway.cli import commands, output
from entrepot.gateway.cli.app import app, run
from entrepot.gateway.settings import LoadedSettings, known_keys
from tests.support.cases import cases
from tests.support.processes.command_line import build_commands_once
from tests.support.processes.stub_server import Stub, stub_server


@pytest.fixture
def server() -> Iterator[Stub]:
    with stub_server() as stub:
        yield stub


@pytest.fixture
def entrepot(capsys, monkeypatch, server):
    """Run a command against the stub server; gives (exit code, standard output, standard error)."""
    build_commands_once(monkeypatch)
    monkeypatch.setenv("ENTREPOT_SERVER", server.url)

    def command(*arguments: str) -> tuple[int, str, str]:
        code = run(arguments)
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return command


TOPIC = {
    "name": "%DLQ%workers",
    "queues": 2,
    "type": "NORMAL",
    "permission": "READ_WRITE",
    "retentionSeconds": None,
    "retentionBytes": 1000,
    "offsets": [{"queueId": 0, "minOffset": 5, "maxOffset": 12}, {"queueId": 1, "minOffset": 0, "maxOffset": 3}],
}
GROUP = {
    "name": "workers",
    "maxAttempts": 16,
    "invisibleSeconds": 30,
    "start": "earliest",
    "progress": [
        {"topic": "orders", "queueId": 0, "committedOffset": 7, "maxOffset": 12, "inFlight": 2, "lag": 5},
        {"topic": "orders", "queueId": 1, "committedOffset": 3, "maxOffset": 4, "inFlight": 0, "lag": 1},
    ],
}
MESSAGE = {
    "brokerProperties": {"lockToken": "tok/1=", "deliveryCount": 2},
    "event": {"specversion": "1.0", "id": "e1", "source": "s", "type": "t", "subject": "a/b", "data": {"x": [1]}},
}


# topics and groups


def test_topic_list(entrepot, server):
    server.will_answer({"value": [TOPIC]})
    code, out, _ = entrepot("topic", "list")
    assert code == 0
    assert [(a.method, a.path) for a in server.asked] == [("GET", "/api/v1/topics")]
    assert "%DLQ%workers" in out
    assert out.split()[-1] == "10"  # messages held

    server.will_answer({"value": [TOPIC]})
    code, out, _ = entrepot("topic", "list", "--json")
    assert (code, json.loads(out)) == (0, [TOPIC])


SILENT = {"asked": 2, "answered": 1, "missing": [{"name": "broker-1", "reason": "no answer within 1.5 s"}]}
NOT_SHOWN = "not shown: what broker-1 has (no answer within 1.5 s)\n"


def test_who_gave_no_answer_is_told_once(entrepot, server):
    for options, after in (((), None), (("--limit", "1"), "t1")):
        server.will_answer({"value": [TOPIC], "next": after, "answered": SILENT})
        code, _, told = entrepot("topic", "list", *options)
        assert (code, told) == (0, "more: --after t1\n" * (after is not None) + NOT_SHOWN)
    server.will_answer({"value": [TOPIC], "next": None, "answered": SILENT})
    code, out, told = entrepot("topic", "list", "--json")
    assert (code, json.loads(out), told) == (0, [TOPIC], NOT_SHOWN)


def test_the_audit_log_tells_which_gateway_gave_no_answer(entrepot, server):
    server.will_answer({"value": [], "next": None, "suppressed": 0, "answered": SILENT})
    assert entrepot("user", "audit")[2] == NOT_SHOWN


def test_names_are_percent_encoded(entrepot, server):
    server.will_answer(TOPIC)
    code, out, _ = entrepot("topic", "show", "%DLQ%workers")
    assert code == 0
    assert server.asked[0].path == "/api/v1/topics/%25DLQ%25workers"
    assert "1000" in out and "12" in out

    server.will_answer(status=404, body={"detail": "no"})
    entrepot("topic", "show", "a/b?c#d é")
    assert server.asked[1].path == "/api/v1/topics/a%2Fb%3Fc%23d%20%C3%A9"


def test_markup_in_names_is_text(entrepot, server):
    server.will_answer({"value": [{**TOPIC, "name": "[bold]x[/nope]"}]})
    code, out, _ = entrepot("topic", "list")
    assert code == 0
    assert "[bold]x[/nope]" in out


def test_topic_create_sends_only_what_was_given(entrepot, server):
    server.will_answer(TOPIC, status=201)
    assert entrepot("topic", "create", "orders")[0] == 0
    server.will_answer(TOPIC)
    code, out, _ = entrepot("topic", "create", "orders", "--queues", "8", "--retention-seconds", "60", "--json")
    assert (code, json.loads(out)) == (0, TOPIC)
    assert [(a.method, a.path, json.loads(a.body)) for a in server.asked] == [
        ("PUT", "/api/v1/topics/orders", {}),
        ("PUT", "/api/v1/topics/orders", {"queues": 8, "retentionSeconds": 60}),
    ]


def test_delete(entrepot, server):
    server.will_answer(status=204)
    assert entrepot("topic", "delete", "orders", "--yes") == (0, "topic orders deleted\n", "")
    server.will_answer(status=204)
    assert entrepot("group", "delete", "workers", "-y") == (0, "group workers deleted\n", "")
    assert [(a.method, a.path) for a in server.asked] == [
        ("DELETE", "/api/v1/topics/orders"),
        ("DELETE", "/api/v1/groups/workers"),
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_asked_before_anything_is_deleted(entrepot, server, monkeypatch):
    monkeypatch.setattr(sys, "stdin", Terminal("n\n"))
    code, _, err = entrepot("topic", "delete", "orders")
    assert (code, server.asked) == (1, [])
    assert err.endswith("entrepot: stopped: nothing was done\n")


DESTROYING = (
    ("topic", "delete", "x"),
    ("group", "delete", "x"),
    ("group", "reset", "x", "y", "--to", "latest"),
    ("namespace", "delete", "x"),
    ("session", "delete", "x"),
    ("retained", "delete", "x"),
    ("retained", "delete", "--filter", "#"),
    ("timer", "recall", "x"),
    ("user", "delete", "x"),
    ("acl", "delete", "x"),
    ("cluster", "drain", "x", "--leave"),
)


def test_without_a_terminal_nothing_is_destroyed_unasked(entrepot, server, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    for arguments in DESTROYING:
        code, out, err = entrepot(*arguments)
        assert (code, out, server.asked) == (2, "", []), arguments
        assert err.endswith(" There is no terminal to ask: say --yes\n")
    for path, command in commands_of(typer.main.get_command(app)):
        if path[-1] in ("delete", "recall", "reset"):
            assert tuple(path) in {each[:2] for each in DESTROYING}, path
            assert "--yes" in options_of(command), path


def commands_of(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that does something, with its words."""
    names = command.list_commands(None) if hasattr(command, "list_commands") else []
    if not names or path == ("ingest",):
        yield path, command
    for name in names:
        yield from commands_of(command.get_command(None, name), (*path, name))


def options_of(command: Any) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


PLAIN = {
    **dict.fromkeys(
        ("serve", "nameserver", "controller", "broker", "gateway"), "--ready-file and log.format=json are for programs"
    ),
    "group export": "JSON lines in any case",
    "retained get": "the body itself",
    "message body": "the body itself",
    "config schema": "JSON in any case",
    "cluster secret": "the secret itself",
    "store backup key": "a file, and its key's name",
}
"""Commands without --json, and why."""


def test_every_command_speaks_json():
    found = {
        " ".join(path): "--json" in options_of(command) for path, command in commands_of(typer.main.get_command(app))
    }
    assert len(found) > 50
    assert {name for name, has in found.items() if not has} == PLAIN.keys()


@cases(
    "arguments, answers, wanted",
    [
        (("topic", "delete", "x", "-y"), [None], {"topic": "x", "deleted": True}),
        (("group", "delete", "x", "-y"), [None], {"group": "x", "deleted": True}),
        (("namespace", "delete", "x", "-y"), [None], {"namespace": "x", "deleted": True}),
        (("session", "delete", "x", "-y"), [None], {"session": "x", "deleted": True}),
        (("retained", "delete", "x", "-y"), [None], {"deleted": 1}),
        (("timer", "recall", "x", "-y"), [None], {"handle": "x", "recalled": True}),
        (("user", "delete", "x", "-y"), [None], {"user": "x", "deleted": True}),
        (("acl", "delete", "x", "-y"), [None], {"subject": "x", "deleted": True}),
        (("client", "kick", "x"), [None], {"client": "x", "disconnected": True}),
        (("client", "trace", "x"), [{"until": "then"}], {"until": "then"}),
        (("client", "trace", "x", "--stop"), [None], {"target": "x", "until": None}),
        (("user", "signing-secret", "x", "--remove"), [{"name": "x"}, {"name": "x"}], {"name": "x"}),
        (("cluster", "undrain", "x"), [{"name": "x"}], {"name": "x"}),
    ],
)
def test_what_was_done_is_told_as_json(entrepot, server, arguments, answers, wanted):
    for answer in answers:
        server.will_answer(answer)
    code, out, err = entrepot(*arguments, "--json")
    assert (code, json.loads(out), err) == (0, wanted, "")


def test_sessions(entrepot, server):
    row = dict.fromkeys(("id", "user", "version", "connected", "gateway", "expiresAt", "subscriptionCount", "will"))
    page = {"value": [{**row, "id": "line-1"}], "next": "line-1"}
    server.will_answer(page)
    code, out, err = entrepot("session", "list")
    assert (code, err) == (0, "more: --after line-1\n")
    assert out.split()[9:11] == ["line-1", "-"]
    for option, wanted in (("--connected", "connected=true&"), ("--away", "connected=false&")):
        server.will_answer(page)
        assert json.loads(entrepot("session", "list", option, "--json")[1]) == page
        assert server.asked[-1].path == f"/api/v1/sessions?{wanted}limit=100"
    assert server.asked[0].path == "/api/v1/sessions?limit=100"
    server.will_answer(status=204)
    assert entrepot("session", "delete", "a/b", "--yes") == (0, "session a/b ended\n", "")
    assert (server.asked[-1].method, server.asked[-1].path) == ("DELETE", "/api/v1/sessions/a%2Fb")
    assert entrepot("session", "list", "--limit", "1001")[0] == 2


def test_a_made_secret_is_told_as_json(entrepot, server):
    for _ in range(2):
        server.will_answer({"name": "x"})
    told = json.loads(entrepot("user", "signing-secret", "x", "--json")[1])
    assert told == {"name": "x", "signingSecret": json.loads(server.asked[1].body)["signingSecret"]}


def test_the_version(entrepot):
    assert entrepot("--version") == entrepot("version")
    assert entrepot("--version")[1].startswith("entrepot 0")


def test_groups(entrepot, server):
    server.will_answer({"value": [GROUP]})
    code, out, _ = entrepot("group", "list")
    assert code == 0
    assert out.split()[-3:] == ["orders", "2", "6"]
    server.will_answer(GROUP)
    code, out, _ = entrepot("group", "show", "workers")
    assert code == 0
    assert out.split()[-6:] == ["orders", "1", "3", "4", "0", "1"]
    server.will_answer(GROUP)
    assert entrepot("group", "create", "workers", "--max-attempts", "3", "--start", "latest")[0] == 0
    assert json.loads(server.asked[-1].body) == {"maxAttempts": 3, "start": "latest"}
    server.will_answer({"value": [GROUP]})
    assert json.loads(entrepot("group", "list", "--json")[1]) == [GROUP]


# messages


def test_publish_is_a_binary_event(entrepot, server):
    server.will_answer({})
    code, out, _ = entrepot(
        "message", "publish", "orders", "--data", '{"n": 1}', "--type", "t", "--subject", 'a/é "%', "--id", "e1"
    )
    assert (code, out) == (0, "published e1 to orders\n")
    (asked,) = server.asked
    assert (asked.method, asked.path, asked.body) == ("POST", "/topics/orders:publish", b'{"n": 1}')
    assert asked.headers["content-type"] == "application/json"
    assert {n: v for n, v in asked.headers.items() if n.startswith("ce-")} == {
        "ce-specversion": "1.0",
        "ce-id": "e1",
        "ce-source": "urn:entrepot:cli",
        "ce-type": "t",
        "ce-subject": "a/%C3%A9%20%22%25",
    }


def test_publish_from_a_file_or_standard_input(entrepot, server, tmp_path, monkeypatch):
    path = tmp_path / "data"
    path.write_bytes(b"\xff\x00")
    server.will_answer({})
    assert entrepot("message", "publish", "t", "--data", f"@{path}")[0] == 0
    server.will_answer({})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("naïve".encode())))
    assert entrepot("message", "publish", "t", "--data", "-")[0] == 0
    assert [(a.body, a.headers["content-type"]) for a in server.asked] == [
        (b"\xff\x00", "application/octet-stream"),
        ("naïve".encode(), "text/plain; charset=utf-8"),
    ]
    assert entrepot("message", "publish", "t", "--data", f"@{tmp_path}/none")[0] == 2


def test_a_byte_order_mark_is_no_part_of_what_a_person_wrote(entrepot, server, tmp_path, monkeypatch):
    path = tmp_path / "written"
    path.write_text('{"n": 1}', encoding="utf-8-sig")
    server.will_answer({})
    assert entrepot("message", "publish", "t", "--data", f"@{path}")[0] == 0
    asked = server.asked.pop()
    assert (asked.body, asked.headers["content-type"]) == (b'{"n": 1}', "application/json")
    server.will_answer({"places": [], "routed": True, "id": "1"})
    assert entrepot("message", "try", "http", "--topic", "t", "--event", '\ufeff{"n": 1}')[0] == 0
    assert json.loads(server.asked.pop().body)["event"] == {"n": 1}
    server.will_answer({})  # whoever names the type sends what is in the file
    assert entrepot("message", "publish", "t", "--data", f"@{path}", "--content-type", "text/plain")[0] == 0
    assert server.asked.pop().body == path.read_bytes()

    path.write_text("pa\u00dfwort\r\nmore", encoding="utf-8-sig")
    for given in (str(path), "-"):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
        server.will_answer({"value": [], "next": None})
        server.will_answer({"name": "ann"}, 201)
        assert entrepot("user", "create", "ann", "--password-file", given)[0] == 0
        assert json.loads(server.asked.pop().body)["password"] == "pa\u00dfwort"

    path.write_text('{"users": []}', encoding="utf-8-sig")
    for _ in range(9):
        server.will_answer({"done": {}, "left_out": []})
    assert entrepot("import", "rabbitmq", "--definitions", str(path))[0] == 0
    server.asked.clear()


def test_wide_text_is_refused_by_its_name(entrepot, server, tmp_path):
    path = tmp_path / "written"
    path.write_text('{"users": []}', encoding="utf-16")
    wide = "it is UTF-16 or UTF-32 text: save it as UTF-8\n"
    code, _, told = entrepot("import", "rabbitmq", "--definitions", str(path))
    assert (code, told) == (2, f"entrepot: cannot read the definitions in {path}: {wide}")
    assert server.asked == []
    server.will_answer({"value": [], "next": None})
    code, _, told = entrepot("user", "create", "ann", "--password-file", str(path))
    assert (code, told) == (2, f"entrepot: cannot read the password in {path}: {wide}")
    assert server.asked.pop().method == "GET"
    server.will_answer({})
    assert entrepot("message", "publish", "t", "--data", f"@{path}")[0] == 0
    assert server.asked[0].headers["content-type"] == "application/octet-stream", "it is no JSON for others"


def test_receive(entrepot, server):
    server.will_answer({"value": [MESSAGE]})
    code, out, _ = entrepot("message", "receive", "%DLQ%w", "g", "--max", "5", "--wait", "1")
    assert code == 0
    assert out.splitlines() == ["e1  t  a/b  attempt 2", '  {"x": [1]}', "  lock token tok/1="]
    path = "/topics/%25DLQ%25w/eventsubscriptions/g:receive?maxEvents=5&maxWaitTime=1"
    server.will_answer({"value": []})
    assert entrepot("message", "receive", "%DLQ%w", "g", "--max", "5", "--wait", "1", "--create")[0] == 0
    assert [(a.method, a.path) for a in server.asked] == [("POST", f"{path}&create=false"), ("POST", path)]


def test_receive_nothing(entrepot, server):
    server.will_answer({"value": []})
    assert entrepot("message", "receive", "t", "g", "--ack") == (0, "", "no message\n")
    server.will_answer({"value": []})
    assert entrepot("message", "receive", "t", "g", "--json") == (0, "[]\n", "")


def test_receive_and_acknowledge(entrepot, server):
    server.will_answer({"value": [MESSAGE]})
    server.will_answer({"succeededLockTokens": ["tok/1="], "failedLockTokens": []})
    code, out, _ = entrepot("message", "receive", "t", "g", "--ack", "--json")
    assert (code, json.loads(out)) == (0, [MESSAGE])
    assert server.asked[1].path == "/topics/t/eventsubscriptions/g:acknowledge"
    assert json.loads(server.asked[1].body) == {"lockTokens": ["tok/1="]}


def test_a_refused_acknowledgement_fails(entrepot, server):
    failed = {"lockToken": "b", "error": {"code": "TokenLost", "message": "not this attempt's"}}
    server.will_answer({"succeededLockTokens": ["a"], "failedLockTokens": [failed]})
    assert entrepot("message", "acknowledge", "t", "g", "a", "b") == (
        1,
        "",
        "entrepot: 1 of 2 could not be acknowledged: not this attempt's\n",
    )


# how it ends


@cases(
    "status, body, said",
    [
        (404, {"title": "Not Found", "detail": "there is no topic 'x'"}, "there is no topic 'x'"),
        (409, {"title": "Conflict"}, "Conflict"),
        (502, b"<html>", "the server answered 502 Bad Gateway"),
        (500, b"[]", "the server answered 500 Internal Server Error"),
        (200, b"<html>", "{url} answered something that is not JSON: is it Entrepôt?"),
    ],
)
def test_refusals_are_one_line(entrepot, server, status, body, said):
    server.will_answer(body, status)
    assert entrepot("topic", "show", "x") == (1, "", f"entrepot: {said.format(url=server.url)}\n")


def test_no_server(entrepot):
    code, out, err = entrepot("topic", "list", "--server", "127.0.0.1:1")
    assert (code, out) == (1, "")
    assert err.startswith("entrepot: cannot reach http://127.0.0.1:1: ")
    assert len(err.splitlines()) == 1


@cases("address", ["ftp://x", "http://x:notaport", "http://", "http://a b", "http://a\tb"])
def test_no_address(entrepot, address):
    code, _, err = entrepot("topic", "list", "--server", address)
    assert code == 2
    assert len(err.splitlines()) == 1


@cases(
    "arguments",
    [
        ("nonsense",),
        ("topic", "show"),
        ("topic", "list", "--nonsense"),
        ("serve", "--mqtt-port", "x"),
        ("serve", "--mqtt-port", "70000"),
        ("serve", "--set", "mqtt.port"),
        ("serve", "--set", "mqtt.port=1", "--mqtt-port", "2"),
        ("serve", "--config", "/does/not/exist.toml"),
        ("message", "receive", "t", "g", "--max", "101"),
        ("shovel", "rabbitmq", "--from", "amqp://me:pw@ho st", "--all"),
        ("shovel", "rabbitmq", "--from", "amqp://host\t", "--all"),
        ("shovel", "rabbitmq", "--from", "amqp://", "--all"),
        ("shovel", "rabbitmq", "--from", "http://host", "--all"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(entrepot, server, arguments):
    code, out, err = entrepot(*arguments)
    assert (code, out, server.asked) == (2, "", [])
    assert len(err.splitlines()) == 1
    assert err.startswith("entrepot: ")


def test_help_everywhere(entrepot):
    pages = [
        (),
        ("serve",),
        ("version",),
        *((noun,) for noun in ("topic", "group", "message", "namespace", "timer", "retained", "config")),
    ]
    pages += [(noun, verb) for noun in ("topic", "group") for verb in ("list", "show", "create", "update", "delete")]
    pages += [("group", verb) for verb in ("reset", "dead-letters", "resend", "export")]
    pages += [("namespace", verb) for verb in ("list", "create", "delete")]
    pages += [("retained", verb) for verb in ("list", "get", "delete")]
    pages += [("timer", verb) for verb in ("list", "recall", "retime")]
    pages += [("message", verb) for verb in ("publish", "receive", "acknowledge", "query", "show")]
    pages += [("config", "show"), ("config", "schema")]
    for page in pages:
        code, out, err = entrepot(*page, "--help")
        assert (code, err) == (0, "")
        assert " ".join(("Usage: entrepot", *page)) in " ".join(out.split())


def test_no_arguments_is_help(entrepot):
    code, out, err = entrepot()
    assert code == 2
    assert "Usage: entrepot" in out + err


def test_something_unexpected_is_one_line(entrepot, monkeypatch):
    def broken(path):
        raise RuntimeError("bang")

    monkeypatch.setattr("entrepot.gateway.cli.noun_commands.segment", broken)
    assert entrepot("topic", "show", "x") == (
        1,
        "",
        "entrepot: unexpected RuntimeError: bang (ENTREPOT_DEBUG=1 shows where)\n",
    )


# serve, config, version


@pytest.fixture
def served(monkeypatch):
    """The settings that `gateway.serving` was started with."""
    seen: list[LoadedSettings] = []

    def start(loaded: LoadedSettings) -> int:
        seen.append(loaded)
        return 0

    module = ModuleType("entrepot.gateway.serving")
    module.run = start  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "entrepot.gateway.serving", module)
    return seen


def test_serve_gathers_its_settings(entrepot, served, tmp_path, monkeypatch):
    path = tmp_path / "c.toml"
    path.write_text('[log]\nlevel = "error"\n[http]\nport = 81\n')
    monkeypatch.setenv("ENTREPOT__HTTP__MAX_BATCH_EVENTS", "7")
    arguments = [
        "serve",
        "--config",
        str(path),
        "--data-dir",
        "d",
        "--host",
        "::1",
        "--http-port",
        "82",
        "--free-ports",
    ]
    code, out, err = entrepot(*arguments, "--ready-file", "r", "--set", "log.format=json", "--set", "store.flush=async")
    assert (code, out, err) == (0, "", "")
    (loaded,) = served
    settings = loaded.settings
    assert str(settings.store.data_dir) == "d"
    assert settings.server.host == "::1"
    assert str(settings.server.ready_file) == "r"
    assert (settings.log.level, settings.log.format, settings.store.flush) == ("error", "json", "async")
    assert settings.http.max_batch_events == 7
    assert (loaded.listener_port("http"), loaded.listener_port("mqtt")) == (82, 0)
    assert loaded.origins["http.port"] == "flag --http-port"
    assert loaded.origins["store.flush"] == "flag --set store.flush"


def test_the_exit_code_of_serve_is_the_servers(entrepot, served, monkeypatch):
    monkeypatch.setattr(sys.modules["entrepot.gateway.serving"], "run", lambda loaded: 1)
    assert entrepot("serve")[0] == 1


def test_config_show(entrepot):
    code, out, _ = entrepot("config", "show", "--json", "--set", "mqtt.port=5")
    tree = json.loads(out)
    assert code == 0
    assert list(tree) == list(known_keys())
    assert tree["mqtt.port"] == {"value": 5, "origin": "flag --set mqtt.port"}
    code, out, _ = entrepot("config", "show")
    assert code == 0
    assert all(key in out for key in known_keys())


def test_config_schema(entrepot):
    code, out, _ = entrepot("config", "schema")
    assert code == 0
    assert "mqtt" in json.loads(out)["properties"]


def test_version(entrepot):
    assert entrepot("version")[1].startswith("entrepot ")
    assert set(json.loads(entrepot("version", "--json")[1])) == {"entrepot", "python"}


def test_completion(entrepot, monkeypatch):
    monkeypatch.setenv("_ENTREPOT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "entrepot to")
    monkeypatch.setenv("COMP_CWORD", "1")
    code, out, _ = entrepot()
    assert (code, out.split()) == (0, ["topic"])


# commands of other rooms


class EntryPoint:
    def __init__(self, name, load):
        self.name, self.load = name, load


@pytest.fixture
def brought(monkeypatch):
    import typer

    good = typer.Typer(help="Speaks.", no_args_is_help=True)

    @good.command()
    def say(word: str) -> None:
        typer.echo(word)

    @good.command()
    def other() -> None:
        pass

    loaded = []

    def fail():
        raise ImportError("No module named 'pyspark'")

    def load():
        loaded.append("good")
        return good

    points = [EntryPoint("good", load), EntryPoint("bad", fail), EntryPoint("topic", fail)]
    monkeypatch.setattr(commands, "entry_points", lambda group: points if group == "entrepot.commands" else [])
    return loaded


def test_commands_come_from_entry_points_when_they_are_wanted(entrepot, brought):
    assert entrepot("version")[0] == 0
    assert brought == []
    assert entrepot("good", "say", "hello") == (0, "hello\n", "")


def test_one_that_cannot_be_loaded_fails_alone(entrepot, brought, server):
    assert entrepot("bad", "--some", "thing") == (
        1,
        "",
        "entrepot: the command 'bad' cannot be loaded: ImportError: No module named 'pyspark'\n",
    )
    code, out, _ = entrepot("--help")
    assert code == 0
    assert "Speaks." in out
    assert "Not available" in out
    server.will_answer({"value": []})
    assert entrepot("topic", "list")[0] == 0  # our own commands are not replaced


# as a process


def test_help_loads_neither_server_nor_store():
    script = (
        "import sys; from entrepot.gateway.cli.app import app, run; run(['--help']);"
        "heavy = ('fastapi', 'entrepot.broker.store', 'entrepot.store_client', 'asyncio', 'httpx2', 'structlog',"
        "'pydantic', 'entrepot.gateway.settings');"
        "sys.exit(any(m in sys.modules for m in heavy))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_body_is_raw_in_a_pipe_and_text_on_a_terminal(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = [b"\x1b[31m\xc3", b"\xb4\x9b\n\xff"]
    output.print_bytes(body)
    assert capfdbinary.readouterr().out == b"".join(body)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    output.print_bytes(body)
    sys.stdout.flush()
    assert capfdbinary.readouterr().out.decode() == "\\x1b[31mô\\x9b\n\\xff\n"
