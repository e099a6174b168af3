"""The settings: one typed tree, and where each value came from.

The tree is two levels deep, sections of fields, so every setting has one dotted key (`mqtt.port`) that is written the
same way everywhere: as `[mqtt] port = 1883` in the TOML file, as `ENTREPOT__MQTT__PORT` in the environment, as
`--set mqtt.port=1883` on the command line.  File < environment < flags.  A section with a field `port` is a door, and
its name is the door's name in the ready file.

Invariants: nothing is read from the process here (the caller passes the environment and the flags), a key that is not
in the tree is an error wherever it stands, and every error names the key, where it was found and, where one is
near, the key that was probably meant.
"""

from __future__ import annotations

import difflib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from domain.consumer_group import MAX_ATTEMPTS_LIMIT, MAX_INVISIBLE_SECONDS, ConsumerGroup
from domain.names import is_topic_name
from domain.routing.topic_filter import is_valid_filter
from domain.topic import MAX_QUEUES

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB

ENVIRONMENT_PREFIX: Final = "ENTREPOT__"
DEFAULT_ORIGIN: Final = "default"

Port = Annotated[int, Field(ge=0, le=65_535)]
Count = Annotated[int, Field(ge=1)]
Bytes = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class SettingsError(Exception):
    """The settings cannot be used; one sentence for each problem."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class _Table(BaseModel):
    """A table of the settings: closed, unchangeable, and with no number spelt `true`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_boolean_for_a_number(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, bool) and info.field_name and cls.model_fields[info.field_name].annotation is not bool:
            raise ValueError("true and false are not values of this setting")
        return value


class ServerSettings(_Table):
    """The process as a whole."""

    host: str = Field("127.0.0.1", min_length=1, description="Address that every listener binds to")
    ready_file: Path | None = Field(
        None, description="File that gets a JSON object of every listener's real address once everything is up"
    )
    drain_seconds: Seconds = Field(10, description="Longest time a stop waits for what is under way")
    free_ports: bool = Field(False, description="Every listener without a port of its own takes a free one")


class MqttSettings(_Table):
    """The MQTT door (3.1.1 and 5 on TCP)."""

    enabled: bool = Field(True, description="Whether this door is open")
    port: Port = Field(1883, description="TCP port; 0 takes a free one")
    max_connections: Count = Field(100_000, description="Connections at one time; more are refused")
    connect_timeout_seconds: Seconds = Field(10, description="Time a client has for its CONNECT")
    keep_alive_max_seconds: int = Field(
        65_535, ge=1, le=65_535, description="Longest keep-alive granted; MQTT 5 clients are told a shorter one"
    )
    max_packet_size_bytes: int = Field(
        4 * MIB + 64 * KIB, ge=1 * KIB, le=268_435_460, description="Largest packet taken from a client"
    )
    receive_maximum: int = Field(
        1024, ge=1, le=65_535, description="Publishes a client may have unconfirmed, as announced in CONNACK"
    )
    max_subscriptions_per_client: Count = Field(1000, description="Topic filters one client may subscribe to")
    max_queued_messages: Count = Field(1000, description="Messages that may wait for one slow subscriber")
    max_inflight_messages: int = Field(
        1024, ge=1, le=65_535, description="QoS 1 messages sent to one subscriber and not acknowledged yet"
    )
    write_buffer_bytes: Bytes = Field(1 * MIB, description="What may wait to be written to one socket")


class HttpSettings(_Table):
    """The HTTP door: CloudEvents, administration, metrics."""

    enabled: bool = Field(True, description="Whether this door is open")
    port: Port = Field(8080, description="TCP port; 0 takes a free one")
    max_body_bytes: Bytes = Field(4 * MIB, description="Largest request body")
    max_batch_events: Count = Field(1000, description="Events in one batched publish")
    keep_alive_seconds: Seconds = Field(75, description="How long an idle connection is kept")
    max_wait_seconds: Seconds = Field(120, description="Longest a receive may wait for a message")
    event_type: str = Field(
        "dev.entrepot.message", min_length=1, description="CloudEvents type of messages that came by another protocol"
    )


class TopicRule(_Table):
    """One rule of which Topic an MQTT name belongs to."""

    filter: str = Field(description="MQTT topic filter that the name must match")
    topic: str = Field(description="Topic that takes the messages")

    @field_validator("filter")
    @classmethod
    def _is_a_filter(cls, value: str) -> str:
        if not is_valid_filter(value):
            raise ValueError(f"{value!r} is not an MQTT topic filter")
        return value

    @field_validator("topic")
    @classmethod
    def _is_a_topic(cls, value: str) -> str:
        if not is_topic_name(value):
            raise ValueError(f"{value!r} is not a topic name")
        return value


class TopicsSettings(_Table):
    """Topics, and how names become topics."""

    auto_create: bool = Field(True, description="Whether a first publish or receive creates its topic")
    default_queues: int = Field(4, ge=1, le=MAX_QUEUES, description="Message queues of a new topic")
    max_auto_created: Count = Field(10_000, description="Topics beyond which none is created by use")
    rules: list[TopicRule] = Field(
        [], description="Rules from MQTT filters to topics, first match wins; else the first level is the topic"
    )


class GroupsSettings(_Table):
    """What a consumer group has unless it says otherwise."""

    max_attempts: int = Field(
        16, ge=1, le=MAX_ATTEMPTS_LIMIT, description="Deliveries of one message before it is dead-lettered"
    )
    invisible_seconds: int = Field(
        30, ge=1, le=MAX_INVISIBLE_SECONDS, description="How long a received message stays with its consumer"
    )
    start: Literal["earliest", "latest"] = Field("earliest", description="Where a new group begins to read")

    def new_group(self, name: str) -> ConsumerGroup:
        """A group that has said nothing yet."""
        return ConsumerGroup(name, self.max_attempts, self.invisible_seconds, self.start)


class StoreSettings(_Table):
    """The store."""

    kind: Literal["embedded", "memory"] = Field("embedded", description="embedded is durable, memory keeps nothing")
    data_dir: Path = Field(Path("data"), description="Directory of everything that is kept")
    segment_size_bytes: int = Field(1 * GIB, ge=1 * MIB, description="Size at which a commit-log file is full")
    preallocate_bytes: int = Field(64 * MIB, ge=1 * MIB, description="Disk space taken ahead of the log's end")
    reserve_bytes: int = Field(
        16 * MIB, ge=0, description="Space that publishing leaves for acknowledgements when the disk is full"
    )
    flush: Literal["sync", "async"] = Field(
        "sync", description="sync confirms what is on disk, async what the operating system has"
    )
    flush_linger_us_max: int = Field(
        200, ge=0, description="Shortest time between commits while several producers wait"
    )
    max_unconfirmed_bytes: Bytes = Field(64 * MIB, description="Appended and not yet durable; beyond, publishers wait")
    checkpoint_interval_bytes: Bytes = Field(64 * MIB, description="Log growth after which a checkpoint is written")
    checkpoint_interval_seconds: Seconds = Field(30, description="Time after which a checkpoint is written")
    max_message_bytes: Bytes = Field(4 * MIB, description="Largest body of a message")
    max_in_flight_per_queue: Count = Field(
        65_536, description="Messages of one queue that one group may hold unacknowledged"
    )
    hold_back_messages: Count = Field(
        32_768, description="How far a group runs ahead of a message that waits before that moves to the retry topic"
    )
    retention_seconds: Count = Field(
        72 * 3600, description="Age at which messages go, unless their topic says otherwise"
    )
    retention_interval_seconds: Seconds = Field(10, description="Time between two looks for what can go")
    disk_warn_free_bytes: int = Field(4 * GIB, ge=0, description="Free disk space below which a warning is logged")
    disk_refuse_free_bytes: int = Field(1 * GIB, ge=0, description="Free disk space below which publishing is refused")
    disk_emergency_free_bytes: int = Field(
        512 * MIB, ge=0, description="Free disk space below which the oldest messages go before their time"
    )
    index_slots: Count = Field(500_000, description="Hash slots of a message index file")
    index_entries: Count = Field(2_000_000, description="Entries of a message index file")
    transaction_check_after_seconds: Seconds = Field(
        6, description="Time after which the producer of a half message is asked how its transaction ended"
    )
    transaction_check_interval_seconds: Seconds = Field(30, description="Time between two such questions")
    transaction_max_checks: Count = Field(15, description="Questions after which a transaction is rolled back")


class LogSettings(_Table):
    """What the process says about itself, on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least severe event that is told")
    format: Literal["console", "json"] = Field("console", description="console is for people, json for machines")


class Settings(_Table):
    """The whole tree."""

    server: ServerSettings = Field(default_factory=ServerSettings)
    mqtt: MqttSettings = Field(default_factory=MqttSettings)
    http: HttpSettings = Field(default_factory=HttpSettings)
    topics: TopicsSettings = Field(default_factory=TopicsSettings)
    groups: GroupsSettings = Field(default_factory=GroupsSettings)
    store: StoreSettings = Field(default_factory=StoreSettings)
    log: LogSettings = Field(default_factory=LogSettings)


@dataclass(frozen=True, slots=True)
class SettingRow:
    """One setting as it stands."""

    key: str
    value: Any
    """As JSON would carry it."""
    origin: str
    description: str


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The effective settings, and for every dotted key where its value came from."""

    settings: Settings
    origins: dict[str, str]

    def listener_port(self, door: str) -> int:
        """The port to bind for a door: its own; or 0 where free ports are wanted and nobody gave it one."""
        key = f"{door}.port"
        if self.settings.server.free_ports and self.origins[key] == DEFAULT_ORIGIN:
            return 0
        port: int = getattr(self.settings, door).port
        return port

    def rows(self) -> list[SettingRow]:
        """Every setting, in the order of the tree."""
        values = self.settings.model_dump(mode="json")
        rows = []
        for key in KNOWN_KEYS:
            section, name = key.split(".")
            description = _SECTIONS[section].model_fields[name].description or ""
            rows.append(SettingRow(key, values[section][name], self.origins[key], description))
        return rows


def _sections() -> dict[str, type[BaseModel]]:
    tables = {name: field.annotation for name, field in Settings.model_fields.items()}
    return {name: table for name, table in tables.items() if isinstance(table, type) and issubclass(table, BaseModel)}


_SECTIONS: Final = _sections()
KNOWN_KEYS: Final = tuple(f"{section}.{name}" for section, table in _SECTIONS.items() for name in table.model_fields)
DOORS: Final = tuple(section for section, table in _SECTIONS.items() if "port" in table.model_fields)
"""Names of the listeners, in the order of the tree."""


def environment_name(key: str) -> str:
    """The environment variable of a dotted key."""
    return ENVIRONMENT_PREFIX + key.replace(".", "__").upper()


def load_settings(
    config_file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
    flag_names: Mapping[str, str] | None = None,
) -> LoadedSettings:
    """The settings out of a TOML file, an environment and command-line flags, the later over the earlier.

    `flags` has values by dotted key.  `flag_names` says by which flag a key was given; a key it does not have came
    by `--set`.  Raises `SettingsError` with every problem found.
    """
    loader = _Loader()
    if config_file is not None:
        loader.add_file(config_file)
    loader.add_environment(environ or {})
    loader.add_flags(flags or {}, flag_names or {})
    return loader.load()


class _Loader:
    """Collects values with their origins, then validates all of them at once."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, object]] = {}
        self._origins: dict[str, str] = dict.fromkeys(KNOWN_KEYS, DEFAULT_ORIGIN)
        self._problems: list[str] = []

    def add_file(self, path: Path) -> None:
        origin = f"file {path}"
        for section, table in _read_toml(path).items():
            if section not in _SECTIONS:
                if isinstance(table, dict) and table:
                    for name in table:
                        self._unknown(f"{section}.{name}", origin)
                else:
                    self._unknown(section, origin)
            elif not isinstance(table, dict):
                self._problems.append(f"bad value for {section!r} ({origin}): it is a section, not a value")
            else:
                for name, value in table.items():
                    self._put(f"{section}.{name}", value, origin)

    def add_environment(self, environ: Mapping[str, str]) -> None:
        for variable, text in environ.items():
            if variable.startswith(ENVIRONMENT_PREFIX):
                key = variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("__", ".")
                self._put(key, text, f"environment {variable}", written_as=environment_name)

    def add_flags(self, flags: Mapping[str, object], flag_names: Mapping[str, str]) -> None:
        for key, value in flags.items():
            self._put(key, value, f"flag {flag_names.get(key, f'--set {key}')}")

    def load(self) -> LoadedSettings:
        settings = None
        try:
            settings = Settings.model_validate(self._values)
        except ValidationError as invalid:
            self._problems += [self._explain(tuple(error["loc"]), error) for error in invalid.errors()]
        if settings is None or self._problems:
            raise SettingsError(self._problems)
        return LoadedSettings(settings, self._origins)

    def _put(self, key: str, value: object, origin: str, written_as: Any = repr) -> None:
        if key not in self._origins:
            self._unknown(key, origin, written_as)
            return
        section, name = key.split(".")
        if isinstance(value, str):
            try:
                value = _from_text(value, _SECTIONS[section].model_fields[name].annotation)
            except ValueError as error:
                self._problems.append(f"bad value for {key!r} ({origin}): {error}")
                return
        self._values.setdefault(section, {})[name] = value
        self._origins[key] = origin

    def _unknown(self, key: str, origin: str, written_as: Any = repr) -> None:
        self._problems.append(f"unknown setting {key!r} ({origin}){_suggestion(key, KNOWN_KEYS, written_as)}")

    def _explain(self, location: tuple[int | str, ...], error: Any) -> str:
        key = ".".join(str(step) for step in location[:2])
        where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location).lstrip(".")
        origin = self._origins.get(key, DEFAULT_ORIGIN)
        if error["type"] == "extra_forbidden":
            known = _names_at(location[:-1])
            return f"unknown key {where!r} ({origin}){_suggestion(str(location[-1]), known, repr)}"
        given = "" if error["type"] == "missing" else f"{_shortened(error['input'])}: "
        return f"bad value for {where!r} ({origin}): {given}{_reason(error)}"


def _read_toml(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError([f"cannot read the settings file {path}: {error.strerror or error}"]) from error
    except UnicodeDecodeError as error:
        raise SettingsError([f"the settings file {path} is not UTF-8 text"]) from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([f"the settings file {path} is not TOML: {error}"]) from error


def _from_text(text: str, annotation: Any) -> object:
    """A value written as text: JSON for a list, nothing for none; the rest is pydantic's to read."""
    if get_origin(annotation) is list:
        try:
            return json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"{_shortened(text)}: a list is written as JSON: {error}") from error
    if text == "" and get_origin(annotation) in (Union, UnionType) and type(None) in get_args(annotation):
        return None
    return text


def _names_at(location: tuple[int | str, ...]) -> tuple[str, ...]:
    """The keys of the table at a place in the tree."""
    table: Any = Settings
    for step in location:
        table = get_args(table)[0] if isinstance(step, int) else table.model_fields[step].annotation
    return tuple(table.model_fields)


def _suggestion(key: str, known: tuple[str, ...], written_as: Any) -> str:
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    if not near:
        last = key.rpartition(".")[2]  # the right name in the wrong section
        near = [candidate for candidate in known if candidate.rpartition(".")[2] == last]
    return f"; did you mean {written_as(near[0])}?" if near else ""


def _reason(error: Any) -> str:
    message = str(error["msg"])
    if error["type"] == "value_error":
        return message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
