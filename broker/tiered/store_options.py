"""StoreOptions: the settings of an object store besides its URL, without credentials."""

from __future__ import annotations

from dataclasses import dataclass

from entrepot.broker.tiered.objects import TierError
from entrepot.domain.errors import Code
from entrepot.domain.url import fault_of_url


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Times in seconds; a call ends within `give_up_seconds` and one more `request_seconds`.

    `endpoint`: address of the store, if not at its provider's: `http://minio:9000`, without the bucket.
    `virtual_hosted`: the bucket is part of the host's name, instead of the path's beginning. `allow_http`: without TLS.
    `request_seconds`: for all of a request, with the largest object that is sent. `retries`: further tries of a
    request. `checksum`: S3 checks a SHA-256 of each object. Raises TierError for contradictory options.
    """

    endpoint: str | None = None
    region: str | None = None
    virtual_hosted: bool = False
    allow_http: bool = False
    request_seconds: float = 60.0
    connect_seconds: float = 5.0
    retries: int = 3
    give_up_seconds: float = 120.0
    first_pause_seconds: float = 0.1
    longest_pause_seconds: float = 5.0
    checksum: bool = True

    def __post_init__(self) -> None:
        if (fault := self._fault()) is not None:
            raise TierError(f"the object store's settings: {fault}", Code.BAD_REQUEST)

    def _fault(self) -> str | None:
        if self.endpoint is not None and (fault := _fault_of_endpoint(self.endpoint, self.allow_http)) is not None:
            return f"endpoint: {fault}"
        for name in ("request_seconds", "connect_seconds", "give_up_seconds", "first_pause_seconds"):
            if not 0 < getattr(self, name) <= 3600:
                return f"{name}: more than 0 and up to 3600 is wanted"
        if not self.first_pause_seconds <= self.longest_pause_seconds <= 3600:
            return "longest_pause_seconds: from first_pause_seconds up to 3600 is wanted"
        return None if 0 <= self.retries <= 100 else "retries: 0 to 100 is wanted"


def _fault_of_endpoint(endpoint: str, allow_http: bool) -> str | None:
    if (fault := fault_of_url(endpoint, ("http", "https"))) is not None:
        return fault
    if "@" in endpoint:
        return "credentials belong in the environment, not in a URL"
    if "?" in endpoint or "#" in endpoint:
        return "a host and a path, without ? and #, are wanted"
    if endpoint.startswith("http:") and not allow_http:
        return "it is without TLS: set allow_http, or an https URL"
    return None
