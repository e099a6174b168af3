"""The settings of the object store for cold messages."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from entrepot.domain.url import fault_of_url
from entrepot.gateway.settings.table import KIB, MIB, Table

SCHEMES: Final = ("file", "s3", "gs", "az")
ASK_SECONDS: Final = 3600
"""Longest wait for an object store, in seconds."""
Wait = Annotated[float, Field(gt=0, le=ASK_SECONDS, allow_inf_nan=False)]


class TierSettings(Table):
    """The object store of topics with `tierSeconds` (docs/tiered.md). Credentials are in the environment."""

    url: str = Field(
        "", description="URL of the object store: file:///folder, s3://bucket/prefix, gs:// or az://; empty: none"
    )
    endpoint: str = Field("", description="Endpoint of the store, http(s)://host:port, unless it is the provider's")
    region: str = Field("", description="Region of the store; empty: from the environment")
    allow_http: bool = Field(False, description="Allow an endpoint without TLS")
    request_seconds: Wait = Field(60, description="Longest time for one request and its data")
    connect_seconds: Wait = Field(5, description="Longest time for connecting to the store")
    retries: int = Field(3, ge=0, le=100, description="Maximum retries of a failed request")
    segment_bytes: int = Field(
        32 * MIB, ge=64 * KIB, le=256 * MIB, description="Size of one object of a table, in bytes of the topic's log"
    )
    max_age_seconds: Wait = Field(
        30, description="Minimum age of uploaded messages that do not fill an object; longer with many topics"
    )
    requests_per_hour: int = Field(
        20_000, ge=100, description="Approximate upload requests each hour; with many small topics, these wait longer"
    )
    vacuum_grace_seconds: float = Field(
        24 * 3600, ge=600, allow_inf_nan=False, description="Retention of objects that a table no longer needs"
    )
    max_kept_bytes: int = Field(
        0, ge=0, description="Maximum log kept for a topic whose uploads fail; beyond it messages are lost; 0: no limit"
    )
    attach_endpoints: list[str] = Field(
        [], description="Further endpoints allowed in tier attach; they get this broker's credentials"
    )
    attach_urls: list[str] = Field(
        [], description="URLs, besides url, below which tables may be attached: folders as file://, or buckets"
    )
    read: Literal["disabled", "not_in_disk", "force"] = Field(
        "not_in_disk", description="Reads from the store: never, for messages not on disk, or for all that it has"
    )
    missing: Literal["skip", "refuse"] = Field(
        "skip",
        description="Reads where messages left the disk before their upload: go on after them, or are refused",
    )
    payload: Literal["none", "json"] = Field(
        "none", description="Columns from message bodies: none, or json for typed columns of JSON fields"
    )
    cluster: bool = Field(
        True, description="Messages of a sub-topic beside each other in merged segments; earlier versions refuse these"
    )
    iceberg: bool = Field(False, description="Write the metadata of Iceberg, too: its readers see the same files")
    cache_bytes: int = Field(128 * MIB, ge=1 * MIB, description="Cache size for data read from the store")

    @field_validator("url")
    @classmethod
    def _is_a_store(cls, value: str) -> str:
        if value and (fault := fault_of_store(value)) is not None:
            raise ValueError(fault)
        return value

    @field_validator("attach_urls")
    @classmethod
    def _are_stores(cls, value: list[str]) -> list[str]:
        for each in value:
            if (fault := fault_of_store(each)) is not None:
                raise ValueError(fault)
        return value

    @field_validator("endpoint")
    @classmethod
    def _is_an_endpoint(cls, value: str) -> str:
        if value and (fault := _fault_of_endpoint(value)) is not None:
            raise ValueError(fault)
        return value

    @model_validator(mode="after")
    def _is_safe(self) -> TierSettings:
        if self.endpoint.startswith("http:") and not self.allow_http:
            raise ValueError("endpoint is without TLS: set allow_http, or an https URL")
        return self

    def options(self) -> dict[str, Any]:
        """Options of requests, by the names of the store's client."""
        return {
            "endpoint": self.endpoint or None,
            "region": self.region or None,
            "allow_http": self.allow_http,
            "request_seconds": self.request_seconds,
            "connect_seconds": self.connect_seconds,
            "retries": self.retries,
        }


def fault_of_store(url: str) -> str | None:
    """The fault of a text that is not a URL of an object store, or None. It does not repeat the URL, which may have a
    password."""
    if not url.isprintable() or " " in url:
        return "a URL has no blanks and no control characters"
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the brackets of its host do not match"
    if parts.scheme not in SCHEMES:
        return f"a URL with {', '.join(f'{each}://' for each in SCHEMES)} is wanted"
    if "@" in parts.netloc or (":" in parts.netloc and "@" in parts.path):  # keys of S3 may have a slash
        return "credentials belong in the environment, not in a URL"
    if parts.query or parts.fragment:
        return "a URL without ? and # is wanted: settings have names of their own"
    if parts.scheme == "file":
        return _fault_of_folder(parts.netloc, parts.path)
    if ":" in parts.netloc:
        return "a bucket has no port: endpoint says where the store is"
    return None if parts.netloc else f"it names no bucket: {parts.scheme}://bucket/prefix is wanted"


def _fault_of_folder(host: str, path: str) -> str | None:
    if host not in ("", "localhost"):
        return f"a folder has no host: file:///{host}... is wanted"
    if ".." in path.split("/"):
        return "its path goes up"
    return None if path.strip("/") else "it is the whole disk: name a folder"


def _fault_of_endpoint(endpoint: str) -> str | None:
    if "@" in endpoint:
        return "credentials belong in the environment, not in a URL"
    if (fault := fault_of_url(endpoint, ("http", "https"))) is not None:
        return fault
    return "a host and a path, without ? and #, are wanted" if "?" in endpoint or "#" in endpoint else None
