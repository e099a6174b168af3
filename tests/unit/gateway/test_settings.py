"""Settings: layers and origins, and errors that say what, where and what was meant."""

from pathlib import Path

import pytest

from entrepot.gateway.settings import (
    LoadedSettings,
    Settings,
    SettingsError,
    environment_name,
    known_keys,
    listeners,
    load_settings,
)
from tests.support.cases import cases


@pytest.fixture
def file(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / "entrepot.toml"
        path.write_text(text)
        return path

    return write


def problems(*args, **kwargs) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(*args, **kwargs)
    assert str(caught.value) == "\n".join(caught.value.problems)
    return caught.value.problems


def test_defaults():
    loaded = load_settings()
    assert loaded.settings == Settings()
    assert loaded.settings.mqtt.port == 1883
    assert loaded.settings.http.port == 8080
    assert loaded.settings.server.host == "127.0.0.1"
    assert loaded.settings.store.data_dir == Path("data")
    assert loaded.settings.mqtt.max_packet_size_bytes == 4_259_840
    assert set(loaded.origins.values()) == {"default"}
    assert set(loaded.origins) == set(known_keys())


def test_later_layers_win_and_every_value_knows_its_origin(file):
    path = file(
        """
        [mqtt]
        port = 1
        max_connections = 11
        receive_maximum = 12
        [store]
        data_dir = "kept"
        """
    )
    environ = {
        "ENTREPOT__MQTT__PORT": "2",
        "ENTREPOT__MQTT__MAX_CONNECTIONS": "21",
        "PATH": "/bin",
        "ENTREPOT_SERVER": "x",
    }
    flags = {"mqtt.port": 3, "log.level": "debug"}
    loaded = load_settings(path, environ, flags, {"mqtt.port": "--mqtt-port"})

    mqtt = loaded.settings.mqtt
    assert (mqtt.port, mqtt.max_connections, mqtt.receive_maximum) == (3, 21, 12)
    assert loaded.settings.store.data_dir == Path("kept")
    assert loaded.origins["mqtt.port"] == "flag --mqtt-port"
    assert loaded.origins["mqtt.max_connections"] == "environment ENTREPOT__MQTT__MAX_CONNECTIONS"
    assert loaded.origins["mqtt.receive_maximum"] == f"file {path}"
    assert loaded.origins["log.level"] == "flag --set log.level"
    assert loaded.origins["http.port"] == "default"


@cases("text, value", [("true", True), ("false", False), ("1", True), ("0", False), ("yes", True), ("off", False)])
def test_booleans_from_text(text, value):
    assert load_settings(environ={"ENTREPOT__MQTT__ENABLED": text}).settings.mqtt.enabled is value


def test_nothing_is_none_for_what_may_be_absent(file):
    path = file('[server]\nready_file = "ready.json"')
    assert load_settings(path).settings.server.ready_file == Path("ready.json")
    assert load_settings(path, {"ENTREPOT__SERVER__READY_FILE": ""}).settings.server.ready_file is None


def test_rules_come_from_tables_or_as_json(file):
    path = file('[[topics.rules]]\nfilter = "a/+/b"\ntopic = "first"\n[[topics.rules]]\nfilter = "#"\ntopic = "rest"')
    assert [(r.filter, r.topic) for r in load_settings(path).settings.topics.rules] == [
        ("a/+/b", "first"),
        ("#", "rest"),
    ]
    text = '[{"filter": "x/#", "topic": "X"}]'
    assert load_settings(flags={"topics.rules": text}).settings.topics.rules[0].topic == "X"
    assert load_settings(environ={"ENTREPOT__TOPICS__RULES": "[]"}).settings.topics.rules == []


def test_an_unknown_key_is_named_with_its_place_and_the_nearest(file):
    path = file("[mqtt]\nprot = 1\n[mqqt]\nport = 2\n[zzz]\n")
    assert problems(
        path, {"ENTREPOT__HTTP__MAX_BODY_BYTE": "1", "ENTREPOT__NONSENSE": "1"}, {"stor.flush": "sync"}
    ) == [
        f"unknown setting 'mqtt.prot' (file {path}); did you mean 'mqtt.port'?",
        f"unknown setting 'mqqt.port' (file {path}); did you mean 'mqtt.port'?",
        f"unknown setting 'zzz' (file {path})",
        "unknown setting 'http.max_body_byte' (environment ENTREPOT__HTTP__MAX_BODY_BYTE)"
        "; did you mean ENTREPOT__HTTP__MAX_BODY_BYTES?",
        "unknown setting 'nonsense' (environment ENTREPOT__NONSENSE)",
        "unknown setting 'stor.flush' (flag --set stor.flush); did you mean 'store.flush'?",
    ]


def test_the_right_name_in_the_wrong_section_is_found():
    assert problems(flags={"x.segment_size_bytes": "1"}) == [
        "unknown setting 'x.segment_size_bytes' (flag --set x.segment_size_bytes)"
        "; did you mean 'store.segment_size_bytes'?"
    ]


def test_an_unknown_key_inside_a_rule(file):
    path = file('[[topics.rules]]\nfiltre = "a"\ntopic = "t"')
    assert f"unknown key 'topics.rules[0].filtre' (file {path}); did you mean 'filter'?" in problems(path)


@cases(
    "key, value",
    [
        ("mqtt.port", "65536"),
        ("mqtt.port", "-1"),
        ("mqtt.port", "1883.5"),
        ("mqtt.port", ""),
        ("mqtt.port", "mqtt"),
        ("mqtt.enabled", "maybe"),
        ("mqtt.receive_maximum", "0"),
        ("http.max_body_bytes", "4MiB"),
        ("server.drain_seconds", "nan"),
        ("server.drain_seconds", "inf"),
        ("server.drain_seconds", "-1"),
        ("server.host", ""),
        ("store.flush", "never"),
        ("log.format", "xml"),
        ("topics.rules", "a=b"),
        ("topics.rules", '[{"filter": "a/#/b", "topic": "t"}]'),
        ("topics.rules", '[{"filter": "a", "topic": "%DLQ%x"}]'),
        ("topics.rules", '[{"filter": "a"}]'),
        ("topics.rules", "7"),
        ("groups.start", "yesterday"),
        ("grpc.max_streams", "99"),
        ("grpc.proxy_protocol", "optional"),
        ("amqp.proxy_protocol", "optional"),
        ("http.proxy_protocol", "optional"),
        ("amqp.tls_crl", "/tmp/revoked.pem"),
        ("http.tls_crl", "/tmp/revoked.pem"),
        ("grpc.tls_crl", "/tmp/revoked.pem"),
        ("mqtt.tls_crl", "/tmp/revoked.pem"),
        ("grpc.trusted_proxies", '["example.com"]'),
        ("grpc.tls_client_certificates", "optional"),
        ("webhooks.public_url", "https://events.exa mple"),
        ("webhooks.public_url", "https://"),
        ("webhooks.public_url", "events.example"),
    ],
)
def test_a_bad_value_is_named_with_its_place(key, value):
    variable = environment_name(key)
    (problem,) = problems(environ={variable: value})
    assert problem.startswith(f"bad value for '{key}")
    assert f"(environment {variable}): " in problem
    assert "\n" not in problem


def test_a_boolean_is_no_number(file):
    path = file("[mqtt]\nport = true\nenabled = 1\n")
    assert problems(path) == [
        f"bad value for 'mqtt.port' (file {path}): True: true and false are not values of this setting"
    ]


def test_a_value_where_a_section_belongs(file):
    path = file("mqtt = 1883\n")
    assert problems(path) == [f"bad value for 'mqtt' (file {path}): it is a section, not a value"]


def test_a_long_bad_value_is_cut():
    (problem,) = problems(flags={"store.flush": "x" * 5000})
    assert len(problem) < 200


def test_files_that_cannot_be_read(tmp_path, file):
    assert problems(tmp_path / "none.toml") == [
        f"cannot read the settings file {tmp_path / 'none.toml'}: No such file or directory"
    ]
    path = file("[mqtt\n")
    (problem,) = problems(path)
    assert problem.startswith(f"the settings file {path} is not TOML: ")
    path.write_bytes(b"\xff\xfe")
    wide = f"cannot read the settings file {path}: it is UTF-16 or UTF-32 text: save it as UTF-8"
    assert problems(path) == [wide]
    path.write_bytes("[mqtt]\nport = 1\n".encode("utf-16"))
    assert problems(path) == [wide]
    path.write_bytes(b"[mqtt]\n# \xfc\n")
    assert problems(path) == [f"cannot read the settings file {path}: it is not UTF-8 text (line 2): save it as UTF-8"]


def test_a_byte_order_mark_is_no_part_of_the_settings(file):
    path = file("")
    path.write_bytes(b"\xef\xbb\xbf[mqtt]\r\nport = 1884\r\n")
    assert load_settings(path).settings.mqtt.port == 1884


def test_settings_do_not_change():
    with pytest.raises(ValueError, match="frozen"):
        Settings().mqtt.port = 1  # type: ignore[misc]


def port_of(door: str, flags: dict[str, object]) -> int:
    return load_settings(flags=flags).listener_port(door)


def test_free_ports_are_for_listeners_without_one_of_their_own():
    assert port_of("mqtt", {}) == 1883
    assert port_of("mqtt", {"server.free_ports": True}) == 0
    assert port_of("mqtt", {"server.free_ports": True, "mqtt.port": 1883}) == 1883
    assert port_of("http", {"server.free_ports": True, "mqtt.port": 1883}) == 0
    assert port_of("http", {"http.port": 0}) == 0
    with pytest.raises(KeyError):
        port_of("smtp", {"server.free_ports": True})


@cases("door", ["mqtt", "amqp"])
def test_a_certificate_needs_a_port_for_it(door: str) -> None:
    certificate = {f"{door}.tls_certificate": "/nowhere/server.pem"}
    with pytest.raises(SettingsError, match="tls_certificate needs tls_port"):
        load_settings(flags=certificate)
    assert load_settings(flags={**certificate, f"{door}.tls_port": 0})
    if door == "mqtt":
        assert load_settings(flags={**certificate, "mqtt.wss_port": 0})


def test_doors_are_the_sections_with_a_port():
    assert listeners() == ("mqtt", "amqp", "grpc", "http", "broker", "nameserver", "controller")


def test_rows_tell_everything_about_every_setting():
    loaded: LoadedSettings = load_settings(flags={"store.data_dir": "/var/x"})
    rows = {row.key: row for row in loaded.rows()}
    assert list(rows) == list(known_keys())
    assert (rows["store.data_dir"].value, rows["store.data_dir"].origin) == ("/var/x", "flag --set store.data_dir")
    assert all(row.description for row in rows.values())


def test_numbers_have_their_unit_in_the_name():
    units = ("_bytes", "_seconds", "_us_max", "_max_seconds")
    counts = ("port", "_connections", "_maximum", "_per_client", "_messages", "_events", "_queues", "_created")
    counts += ("_attempts", "_per_queue", "_slots", "_entries", "_checks", "workers")
    counts += ("_iterations", "_parallelism", "_threads", "_logins", "_decisions", "_per_second")
    counts += ("_channels", "_unacknowledged", "_properties", "_receives", "_clients", "_subscriptions", "_characters")
    counts += ("_channels", "_unacknowledged", "_streams", "_sockets", "_subscriptions", "_requests", "_failures")
    counts += ("_per_minute", "_per_hour", "_per_subscription", "_per_host")
    counts += ("_per_listener", "_per_address", "_per_user", "_sessions", "_levels")
    counts += ("replica_id", "min_in_sync", "controller.id", "retries")
    for row in load_settings().rows():
        if isinstance(row.value, int | float) and not isinstance(row.value, bool):
            assert row.key.endswith(units + counts), row.key
