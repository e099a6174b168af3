"""The loading of the settings from a file, the environment and flags, with errors in words."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr, ValidationError

from entrepot.domain.written_text import WrittenTextError, written_text
from entrepot.gateway.settings.installed import installed_doors, whole_tree
from entrepot.gateway.settings.tree import Settings

ENVIRONMENT_PREFIX: Final = "ENTREPOT__"
DEFAULT_ORIGIN: Final = "default"
_USER_INFO: Final = re.compile(r"://\S*@")
"""User information in a URL, which may have a password: nothing repeats it."""


class SettingsError(Exception):
    """The settings cannot be used; one sentence for each problem."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class SettingRow:
    """The present value of one setting."""

    key: str
    value: Any
    """Value as in JSON; a secret is masked."""
    origin: str
    description: str
    default: Any
    is_secret: bool


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """The effective settings, and the origin of each value by dotted key."""

    settings: Settings
    origins: dict[str, str]

    def listener_port(self, name: str) -> int:
        """The port to bind for a listener; 0 where free ports are wanted and none is set explicitly."""
        key = port_key(name)
        if self.settings.server.free_ports and self.origins[key] == DEFAULT_ORIGIN:
            return 0
        section, name = key.split(".")
        port: int = getattr(getattr(self.settings, section), name)
        return port

    def with_ports(self, ports: Mapping[str, int]) -> Settings:
        """The settings with other ports, by listener."""
        tree = self.settings
        for listener, port in ports.items():
            section, field = port_key(listener).split(".")
            tree = tree.model_copy(update={section: getattr(tree, section).model_copy(update={field: port})})
        return tree

    def rows(self) -> list[SettingRow]:
        """Every setting, in the order of the tree."""
        return setting_rows(self.settings, self.origins)


def setting_rows(settings: Settings, origins: Mapping[str, str]) -> list[SettingRow]:
    """Every setting, in the order of the tree; one without a known origin has its default's."""
    values, defaults = settings.model_dump(mode="json"), whole_tree()().model_dump(mode="json")
    rows = []
    for key in known_keys():
        section, name = key.split(".")
        if section not in values:  # settings that were made without the section of an installed door
            continue
        field = _sections()[section].model_fields[name]
        is_secret = SecretStr in (field.annotation, *get_args(field.annotation))
        origin = origins.get(key, DEFAULT_ORIGIN)
        rows.append(
            SettingRow(
                key,
                _without_user_info(values[section][name]),
                origin,
                field.description or "",
                defaults[section][name],
                is_secret,
            )
        )
    return rows


def _without_user_info(value: Any) -> Any:
    """The value with the user information of URLs masked."""
    if isinstance(value, str):
        return _USER_INFO.sub("://***@", value)
    if isinstance(value, list):
        return [_without_user_info(each) for each in value]
    return {name: _without_user_info(each) for name, each in value.items()} if isinstance(value, dict) else value


@cache
def _sections() -> dict[str, type[BaseModel]]:
    """Return the sections by their names; first asked for when settings are read, as installed doors have some."""
    tables = {name: field.annotation for name, field in whole_tree().model_fields.items()}
    return {name: table for name, table in tables.items() if isinstance(table, type) and issubclass(table, BaseModel)}


@cache
def known_keys() -> tuple[str, ...]:
    """Return the dotted keys of all settings, in the order of the tree."""
    return tuple(f"{section}.{name}" for section, table in _sections().items() for name in table.model_fields)


def listeners() -> tuple[str, ...]:
    """Return the sections with a listener of their name, in the order of the tree."""
    return tuple(section for section, table in _sections().items() if "port" in table.model_fields)


_PORT_KEYS: Final = {"mqtts": "mqtt.tls_port", "ws": "mqtt.ws_port", "wss": "mqtt.wss_port", "amqps": "amqp.tls_port"}


def port_key(name: str) -> str:
    """The dotted key of a listener's port: a section may have several."""
    return _PORT_KEYS.get(name, f"{name}.port")


def environment_name(key: str) -> str:
    """The environment variable of a dotted key."""
    return ENVIRONMENT_PREFIX + key.replace(".", "__").upper()


def load_settings(
    config_file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
    flag_names: Mapping[str, str] | None = None,
) -> LoadedSettings:
    """Load the settings from a TOML file, the environment and command-line flags, the later over the earlier.

    `flags` has values by dotted key. `flag_names` has the flag of each key; a key without one came by `--set`. Raises
    `SettingsError` with every problem found.
    """
    loader = _Loader()
    if config_file is not None:
        loader.add_file(config_file)
    loader.add_environment(environ or {})
    loader.add_flags(flags or {}, flag_names or {})
    return loader.load()


class _Loader:
    """A collector of values with their origins, which validates all of them at once."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, object]] = {}
        self._origins: dict[str, str] = dict.fromkeys(known_keys(), DEFAULT_ORIGIN)
        self._problems: list[str] = list(installed_doors().problems)

    def add_file(self, path: Path) -> None:
        origin = f"file {path}"
        for section, table in _read_toml(path).items():
            if section not in _sections():
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
            settings = whole_tree().model_validate(self._values)
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
                value = _from_text(value, _sections()[section].model_fields[name].annotation)
            except ValueError as error:
                self._problems.append(f"bad value for {key!r} ({origin}): {error}")
                return
        self._values.setdefault(section, {})[name] = value
        self._origins[key] = origin

    def _unknown(self, key: str, origin: str, written_as: Any = repr) -> None:
        self._problems.append(f"unknown setting {key!r} ({origin}){_suggestion(key, known_keys(), written_as)}")

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
        return tomllib.loads(written_text(path.read_bytes()))
    except OSError as error:
        raise SettingsError([f"cannot read the settings file {path}: {error.strerror or error}"]) from error
    except WrittenTextError as error:
        raise SettingsError([f"cannot read the settings file {path}: {error}"]) from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([f"the settings file {path} is not TOML: {error}"]) from error


def _from_text(text: str, annotation: Any) -> object:
    """Convert a text: JSON for a list, empty for None; pydantic reads the rest."""
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
    table: Any = whole_tree()
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
    text = _USER_INFO.sub("://***@", repr(value))
    return text if len(text) <= 80 else text[:77] + "..."
