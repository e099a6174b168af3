"""The command line against a running door: what it prints, and how it ends."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta

import pytest

from entrepot.gateway.cli.app import run
from tests.e2e.http.steps import event, publish, receive, settle
from tests.support.cases import cases
from tests.support.processes.command_line import build_commands_once


@pytest.fixture
def entrepot(server, capfd, monkeypatch):
    """Run a command; gives (exit code, standard output, standard error)."""
    build_commands_once(monkeypatch)
    monkeypatch.setenv("ENTREPOT_SERVER", server.url)
    monkeypatch.delenv("ENTREPOT_NAMESPACE", raising=False)

    def command(*arguments: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = run(arguments)
        sys.stdout.flush()
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        told = [line for line in err.splitlines() if "http request" not in line]  # the server is in this process
        lines = out.splitlines(keepends=True)  # with the server's log: refusals, and the audit of changes
        answered = [line for line in lines if "http request refused" not in line and " suppressed=" not in line]
        return code, "".join(answered), "\n".join(told)

    return command


def ok(outcome: tuple[int, str, str]) -> str:
    assert outcome[0] == 0, outcome
    return outcome[1]


# topics, groups, namespaces


def test_topics(entrepot, topic):
    ok(entrepot("topic", "create", topic, "--queues", "3", "--write-queues", "2", "--cleanup", "CONSUMED"))
    limits = ("--retention-seconds", "60", "--retention-bytes", "9", "--max-message-bytes", "100", "--max-backlog", "5")
    ok(entrepot("topic", "update", topic, *limits))
    shown = json.loads(ok(entrepot("topic", "show", topic, "--json")))
    assert (shown["queues"], shown["writeQueues"], shown["cleanup"]) == (3, 2, "CONSUMED")
    assert (shown["retentionSeconds"], shown["retentionBytes"]) == (60, 9)
    assert (shown["maxMessageBytes"], shown["maxBacklog"]) == (100, 5)
    assert (shown["trace"], entrepot("topic", "update", topic, "--trace", "2")[0]) == (0, 2)
    assert json.loads(ok(entrepot("topic", "update", topic, "--trace", "0.5", "--json")))["trace"] == 0.5
    out = ok(entrepot("topic", "update", topic, "--max-backlog", "none", "--write-queues", "none", "--json"))
    assert (json.loads(out)["maxBacklog"], json.loads(out)["writeQueues"]) == (None, None)
    table = ok(entrepot("topic", "show", topic))
    assert "maxMessageBytes" in table and "CONSUMED" in table
    code, _, err = entrepot("topic", "update", topic, "--tier-seconds", "60")
    assert code == 1 and "tierSeconds needs cleanup DELETE" in err
    tiered = ("--cleanup", "DELETE", "--tier-seconds", "60", "--json")
    assert json.loads(ok(entrepot("topic", "update", topic, *tiered)))["tierSeconds"] == 60
    assert "tierSeconds" in ok(entrepot("topic", "show", topic))
    assert json.loads(ok(entrepot("topic", "update", topic, "--tier-seconds", "none", "--json")))["tierSeconds"] is None
    assert entrepot("topic", "update", f"{topic}-none", "--queues", "1")[0] == 1
    assert entrepot("topic", "show", f"{topic}-none")[0] == 1


def test_groups(entrepot, topic):
    ok(entrepot("group", "create", topic, "--retry", "exponential:10:500:3", "--filter", "tag:a || b", "--fifo"))
    shown = json.loads(ok(entrepot("group", "show", topic, "--json")))
    assert (shown["retry"]["initialMs"], shown["retry"]["maxMs"], shown["retry"]["multiplier"]) == (10, 500, 3)
    assert (shown["filter"], shown["fifo"]) == ({"kind": "TAG", "text": "a || b"}, True)
    table = ok(entrepot("group", "show", topic))
    assert "exponential:10:500:3" in table and "TAG:a || b" in table
    ok(entrepot("group", "update", topic, "--retry", "list:1,20", "--max-in-flight", "4", "--no-fifo"))
    assert "list:1,20" in ok(entrepot("group", "show", topic))
    out = ok(entrepot("group", "update", topic, "--filter", "none", "--max-in-flight", "none", "--json"))
    assert (json.loads(out)["filter"], json.loads(out)["maxInFlight"], json.loads(out)["fifo"]) == (None, None, False)
    assert entrepot("group", "update", f"{topic}-none", "--retry", "immediate")[0] == 1
    code, _, err = entrepot("group", "update", topic, "--filter", "SQL92:price >")
    assert (code, len(err.splitlines())) == (1, 1)


def test_namespaces(entrepot, client, topic):
    namespace = f"ns-{topic}"
    assert ok(entrepot("namespace", "create", namespace)) == f"namespace {namespace} is there\n"
    ok(entrepot("topic", "create", topic, "--namespace", namespace))
    assert topic in ok(entrepot("topic", "list", "-n", namespace))
    assert topic not in ok(entrepot("topic", "list"))
    ok(entrepot("message", "publish", topic, "--data", "hello", "-n", namespace))
    assert "hello" in ok(entrepot("message", "receive", topic, "g", "--ack", "--create", "-n", namespace))
    assert "g" in ok(entrepot("group", "list", "-n", namespace))
    listed = json.loads(ok(entrepot("namespace", "list", "--json")))
    found = next(each for each in listed if each["name"] == namespace)
    assert (found["topics"], found["groups"]) == (1, 1)
    assert namespace in ok(entrepot("namespace", "list"))
    assert entrepot("namespace", "delete", namespace, "--yes")[0] == 1
    ok(entrepot("topic", "delete", topic, "--yes", "-n", namespace))
    ok(entrepot("group", "delete", "g", "--yes", "-n", namespace))
    assert ok(entrepot("namespace", "delete", namespace, "--yes")) == f"namespace {namespace} deleted\n"
    assert entrepot("topic", "list", "-n", namespace)[0] == 1


def test_a_group_is_reset(entrepot, client, topic):
    publish(client, topic, event(1), event(2))
    settle(client, "acknowledge", topic, receive(client, topic, topic), topic)
    out = ok(entrepot("group", "reset", topic, topic, "--to", "earliest", "--yes", "--json"))
    assert sum(queue["lag"] for queue in json.loads(out)["progress"]) == 2
    assert "committed" in ok(entrepot("group", "reset", topic, topic, "--to", "latest", "--yes"))
    assert receive(client, topic, topic) == []
    assert entrepot("group", "reset", topic, topic, "--to", "soon", "--yes")[0] == 1
    assert entrepot("group", "reset", topic, topic, "--to", "0", "--queue", "99", "--yes")[0] == 1


def test_members(entrepot, client, topic):
    client.put(f"/api/v1/topics/{topic}", json={"queues": 3})
    for member in ("one", "two"):
        client.post(f"/api/v1/groups/{topic}/topics/{topic}/members/{member}", json={"strategy": "CIRCULAR"})
    table = ok(entrepot("group", "members", topic, "--topic", topic))
    assert "generation 2, CIRCULAR" in table and "0 2" in table and "two" in table
    listed = json.loads(ok(entrepot("group", "members", topic, "--topic", topic, "--json")))
    assert [(one["member"], one["queues"]) for one in listed["value"]] == [("one", [0, 2]), ("two", [1])]
    client.put(f"/api/v1/groups/{topic}-idle")
    assert "no members" in ok(entrepot("group", "members", f"{topic}-idle", "--topic", topic))
    assert entrepot("group", "members", topic, "--topic", f"{topic}-none")[0] == 1
    assert entrepot("group", "members", topic)[0] == 2


# dead letters


def test_dead_letters(entrepot, client, topic, tmp_path):
    client.put(f"/api/v1/topics/{topic}", json={"queues": 1})
    publish(client, topic, *(event(number, data="grüß") for number in range(3)))
    settle(client, "reject", topic, receive(client, topic, topic), topic)
    code, out, err = entrepot("group", "dead-letters", topic, "--limit", "2")
    assert code == 0 and "rejected" in out and topic in out and "--from-offset 2" in err
    listed = json.loads(ok(entrepot("group", "dead-letters", topic, "--from-offset", "2", "--json")))
    assert [one["offset"] for one in listed["value"]] == [2]
    lines = ok(entrepot("group", "export", topic)).splitlines()
    assert [json.loads(json.loads(line)["text"]) for line in lines] == ["grüß"] * 3
    path = tmp_path / "dead.ndjson"
    ok(entrepot("group", "export", topic, "--output", str(path), "--from-offset", "1"))
    assert [json.loads(line)["offset"] for line in path.read_text().splitlines()] == [1, 2]
    assert ok(entrepot("group", "resend", topic, "0", "2")) == "resent 2\n"
    assert len(receive(client, topic, topic)) == 2
    code, out, err = entrepot("group", "resend", topic, "1", "7")
    assert (code, out) == (1, "resent 1\n") and "1 of 2 could not be resent" in err
    assert json.loads(ok(entrepot("group", "resend", topic, "--all", "--json")))["resentOffsets"] == [0, 1, 2]


def test_what_cannot_be_exported_leaves_the_file_alone(entrepot, tmp_path):
    path = tmp_path / "dead.ndjson"
    path.write_text("mine")
    assert entrepot("group", "export", "nobody", "--output", str(path))[0] == 1
    assert path.read_text() == "mine"
    assert entrepot("group", "export", "nobody")[0] == 1
    assert entrepot("group", "dead-letters", "nobody")[0] == 1


def test_a_file_that_cannot_be_written(entrepot, client, topic, tmp_path):
    client.put(f"/api/v1/groups/{topic}")
    code, _, err = entrepot("group", "export", topic, "--output", str(tmp_path / "no" / "file"))
    assert (code, len(err.splitlines())) == (2, 1)


# messages and timers


def test_a_typo_makes_no_topic_and_no_group(entrepot, client, topic):
    ok(entrepot("topic", "create", topic))
    for arguments, missing in (((f"{topic}-typo", "g"), f"topic '{topic}-typo'"), ((topic, "typo"), "group 'typo'")):
        code, out, err = entrepot("message", "receive", *arguments)
        assert (code, out) == (1, "")
        assert err.endswith(f"{missing}; --create makes what is missing")
    names = {each["name"] for each in client.get("/api/v1/topics").json()["value"]}
    names |= {each["name"] for each in client.get("/api/v1/groups").json()["value"]}
    assert topic in names and not names & {f"{topic}-typo", "typo"}
    assert entrepot("message", "receive", topic, "typo", "--create")[0] == 0
    assert entrepot("message", "receive", topic, "typo")[0] == 0


def test_messages(server, entrepot, client, topic):
    publish(client, topic, event(1, data="first", unit="C"), event(2, data="second"))
    receive(client, topic, topic)
    code, out, err = entrepot("message", "query", topic, "--limit", "1")
    assert code == 0 and " e2 " in out and " e1 " not in out and "--cursor" in err
    [found] = json.loads(ok(entrepot("message", "query", topic, "--key", "e1", "--json")))["value"]
    out = ok(entrepot("message", "show", found["id"].lower()))
    assert "first" in out and "ce_unit" in out and "inFlight" in out and topic in out
    shown = json.loads(ok(entrepot("message", "show", found["id"], "--json")))
    assert (shown["consumers"][0]["group"], shown["others"]) == (topic, 0)
    soon = "2999-01-01T00:00:00Z"
    assert json.loads(ok(entrepot("message", "query", topic, "--from", soon, "--json")))["value"] == []
    assert len(json.loads(ok(entrepot("message", "query", topic, "--to", soon, "--json")))["value"]) == 2
    assert entrepot("message", "query", topic, "--from", "yesterday")[0] == 1
    assert entrepot("message", "query", f"{topic}-none")[0] == 1
    assert entrepot("message", "show", "00")[0] == 1
    code, out, err = entrepot("message", "trace", found["id"])
    assert code == 0 and "--trace" in err
    ok(entrepot("topic", "update", topic, "--trace", "1"))
    publish(client, topic, event(3))
    [traced] = json.loads(ok(entrepot("message", "query", topic, "--key", "e3", "--json")))["value"]
    assert "stored" in ok(entrepot("message", "trace", traced["id"]))
    [hop] = json.loads(ok(entrepot("message", "trace", traced["id"], "--json")))
    assert (hop["kind"], hop["topic"], hop["group"]) == ("stored", topic, None)
    assert entrepot("message", "trace", "00")[0] == 1


def test_timers(server, entrepot, client, topic):
    for hours in (1, 2):
        at = (datetime.now(UTC) + timedelta(hours=hours)).isoformat()
        ok(entrepot("message", "publish", topic, "--data", "later", "--deliver-at", at, "--id", f"in-{hours}"))
    assert receive(client, topic) == []
    code, out, err = entrepot("timer", "list", "--topic", topic, "--limit", "1")
    assert code == 0 and "in-1" in out and "in-2" not in out and "--cursor" in err
    first, second = json.loads(ok(entrepot("timer", "list", "--topic", topic, "--json")))["value"]
    assert ok(entrepot("timer", "recall", second["handle"], "--yes")) == "recalled\n"
    assert entrepot("timer", "recall", second["handle"], "--yes")[0] == 1
    out = ok(entrepot("timer", "retime", first["handle"], "2000-01-01T00:00:00Z", "--json"))
    assert json.loads(out)["deliverAt"] == "2000-01-01T00:00:00.000Z"
    assert [one["event"]["id"] for one in receive(client, topic)] == ["in-1"]
    assert entrepot("timer", "list", "--topic", f"{topic}-none")[0] == 1
    assert entrepot("timer", "recall", "nonsense", "--yes")[0] == 1
    assert entrepot("message", "publish", topic, "--data", "x", "--deliver-at", "soon")[0] == 1


@cases(
    "arguments",
    [
        ("topic", "create", "t", "--max-backlog", "many"),
        ("topic", "create", "t", "--write-queues", ""),
        ("topic", "update"),
        ("group", "create", "g", "--retry", "sometimes"),
        ("group", "create", "g", "--retry", "exponential:1"),
        ("group", "create", "g", "--retry", "exponential:a:b"),
        ("group", "create", "g", "--retry", "list"),
        ("group", "create", "g", "--retry", "list:1,x"),
        ("group", "create", "g", "--retry", "immediate:5"),
        ("group", "create", "g", "--filter", "a || b"),
        ("group", "create", "g", "--filter", "REGEX:a"),
        ("group", "create", "g", "--max-in-flight", "x"),
        ("group", "reset", "g", "t"),
        ("group", "resend", "g"),
        ("group", "resend", "g", "1", "--all"),
        ("group", "resend", "g", "one"),
        ("group", "dead-letters", "g", "--limit", "0"),
        ("group", "dead-letters", "g", "--from-offset", "-1"),
        ("message", "query"),
        ("message", "query", "t", "--limit", "1001"),
        ("timer", "list", "--limit", "x"),
        ("timer", "retime", "h"),
        ("namespace", "create"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(entrepot, arguments):
    code, out, err = entrepot(*arguments)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1 and err.startswith("entrepot: ")
