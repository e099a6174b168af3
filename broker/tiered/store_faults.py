"""Faults of an object store, each a sentence with the setting to change.

A client's errors contain the request: with a signed URL, or the server's words on a key. Only a status, the server's
own code, and a host are passed on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from entrepot.broker.tiered.store_options import StoreOptions

_STATUS: Final = re.compile(r"status(?: code)?: (\d{3})\b")
_CODE: Final = re.compile(r"<Code>([A-Za-z]{1,64})</Code>")
_HOST: Final = re.compile(r"\bhttps?://(?:[^/\s@]*@)?([A-Za-z0-9.\-:\[\]]{1,255})")
_KIND: Final = re.compile(r"\bkind: (Timeout|Connect|BadScheme|Builder)\b|\b(BadScheme|BareRedirect)\b")
_FOREIGN: Final = re.compile(
    r"invalid path: Path \"([^\"\n]{1,200})\"|invalid path: Error parsing Path \"([^\"\n]{1,200})\""
)

NO_BUCKET: Final = frozenset({"NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted", "FilesystemNotFound"})
_BAD_CREDENTIALS: Final = frozenset(
    {
        "AuthenticationFailed",
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidAuthenticationInfo",
        "InvalidToken",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
    }
)
_WRONG_REGION: Final = frozenset(
    {"AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect", "TemporaryRedirect"}
)
_FULL: Final = frozenset({"QuotaExceeded", "StorageFull", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded"})
_READ_ONLY: Final = frozenset({"MethodNotAllowed", "ReadOnly", "AccountIsDisabled", "BlobImmutableDueToPolicy"})
_INSTANCE: Final = re.compile(
    r"\bhttps?://(?:169\.254\.1(?:69\.254|70\.2|70\.23)|metadata\.google\.internal|metadata)[:/]"
    r"|\bhttps?://[^/\s]+/latest/(?:api/token|meta-data/iam)"
)
"""Addresses at which machines of a cloud ask for the credentials of their role."""
_KEYS: Final = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (AWS_SESSION_TOKEN for temporary ones)",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS (the path of a key file)",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """The part of an error that may be shown. `kind`: of a request without an answer; `of_a_role`: it was for
    credentials, not to the store. `foreign`: an object's path that no store of the tier takes."""

    status: int = 0
    code: str = ""
    host: str = ""
    kind: str = ""
    of_a_role: bool = False
    foreign: str = ""

    @property
    def has_no_bucket(self) -> bool:
        return self.code in NO_BUCKET


def fault_of(error: Exception) -> Fault:
    """Read the text of a client's error."""
    text = str(error)
    status, code, host = _STATUS.search(text), _CODE.search(text), _HOST.search(text)
    foreign = _FOREIGN.search(text)
    kinds = {first or second for first, second in _KIND.findall(text)}
    return Fault(
        int(status[1]) if status else 0,
        code[1] if code else "",
        host[1] if host else "",
        next((kind for kind in ("BadScheme", "BareRedirect", "Timeout", "Connect") if kind in kinds), ""),
        _INSTANCE.search(text) is not None,
        (foreign[1] or foreign[2]) if foreign else "",
    )


def sentence(fault: Fault, url: str, options: StoreOptions) -> str:
    """Return the fault of a URL's store, and the setting to change."""
    keys = _KEYS.get(url.partition(":")[0], "the store's credentials")
    if fault.of_a_role:
        return f"{url}: no credentials: set {keys} in the environment, or give this machine a role"
    if fault.foreign:
        return f"{url}: an object of others has a path that readers refuse, {fault.foreign!r}: remove it"
    if not fault.status:
        return f"{url}: {_without_answer(fault, options)}"
    if fault.has_no_bucket:
        return f"{url}: there is no such bucket: make it, or set another URL"
    if fault.code in _WRONG_REGION or fault.status in (301, 307):
        return f"{url}: the bucket is in another region: set the region, or the endpoint"
    if fault.status == 401 or fault.code in _BAD_CREDENTIALS:
        return f"{url}: the store does not know the credentials{_said(fault)}: set {keys} in the environment"
    if fault.code in _READ_ONLY or fault.status == 405:
        return f"{url}: the store is read-only{_said(fault)}: allow it to be written to, or set another URL"
    if fault.status == 403:
        return (
            f"{url}: the credentials are not allowed to do this{_said(fault)}: "
            "allow them to list the bucket, and to read, write and delete objects in it"
        )
    if fault.code in _FULL or fault.status == 507:
        return f"{url}: the store is full{_said(fault)}: make room, or raise its quota"
    if fault.status == 429 or fault.code == "SlowDown":
        return f"{url}: the store takes no more requests for now{_said(fault)}"
    if fault.status >= 500:
        return f"{url}: the store is in trouble{_said(fault)}: its own log says more"
    return f"{url}: the store refuses the request{_said(fault)}"


def _without_answer(fault: Fault, options: StoreOptions) -> str:
    at = f" at {fault.host}" if fault.host else ""
    if fault.kind == "BadScheme":
        return f"the store{at} is without TLS: set allow_http, or an https endpoint"
    if fault.kind == "BareRedirect":
        return "the bucket is in another region: set the region, or the endpoint"
    if fault.kind == "Timeout":
        return (
            f"the store{at} said nothing for {options.request_seconds:g} s: "
            "look at the network and the endpoint, or raise request_seconds"
        )
    if fault.kind == "Connect":
        return f"no connection to the store{at}: set the right endpoint, and look at the network and its certificate"
    return f"the store{at} broke off its answer, or gave one that was not understood"


def _said(fault: Fault) -> str:
    return f" ({fault.status} {fault.code})" if fault.code else f" ({fault.status})"
