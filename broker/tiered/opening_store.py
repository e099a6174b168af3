"""The ObjectStore of a URL. obstore is loaded only for URLs that need it: a folder does without."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from entrepot.broker.tiered.folder import FolderStore
from entrepot.broker.tiered.object_paths import checked_path
from entrepot.broker.tiered.objects import ObjectStore, TierError
from entrepot.broker.tiered.store_options import StoreOptions
from entrepot.domain.errors import Code

if TYPE_CHECKING:
    from obstore.store import AzureConfig, ClientConfig, GCSConfig, RetryConfig, S3Config
    from obstore.store import ObjectStore as Client

SCHEMES: Final = ("file", "s3", "gs", "az", "memory")
INSTALL: Final = "pip install 'entrepot[tiered]'"


def open_objects(url: str, options: StoreOptions | None = None) -> ObjectStore:
    """Return the store of a URL: `file:///folder`, `s3://bucket/prefix`, `gs://...`, `az://container/prefix`,
    `memory://`.

    Nothing is asked of it yet (`probe` does). A store in memory is a new one each time. Raises TierError.
    """
    scheme, bucket, prefix = _parts(url)
    if scheme == "file":
        return FolderStore(_folder(bucket, prefix))
    options = options or StoreOptions()
    try:
        from entrepot.broker.tiered.remote_objects import ObstoreStore
    except ImportError as error:
        raise TierError(f"{scheme}:// needs more packages: {INSTALL}", Code.UNSUPPORTED) from error
    shown = f"{scheme}://{bucket}/{prefix}".rstrip("/") if scheme != "memory" else "memory://"
    try:
        client = _CLIENTS[scheme](bucket, prefix or None, options)
    except Exception as error:  # noqa: BLE001 - obstore raises many kinds, and their texts may have credentials
        raise TierError(
            f"{shown}: the settings of the store are not understood ({type(error).__name__}): "
            "look at the environment's variables for it",
            Code.BAD_REQUEST,
        ) from None
    return ObstoreStore(client, shown, options)


def _parts(url: str) -> tuple[str, str, str]:
    """Return scheme, bucket and prefix. No error repeats a URL that may have credentials."""
    if not url.isprintable() or " " in url:
        raise TierError("the object store's URL has blanks or control characters", Code.BAD_REQUEST)
    try:
        parts = urlsplit(url)
    except ValueError:
        raise TierError("the object store's URL has brackets that do not match", Code.BAD_REQUEST) from None
    if "@" in parts.netloc:
        raise TierError(
            "the object store's URL has credentials in it: they belong in the environment", Code.BAD_REQUEST
        )
    if parts.query or parts.fragment:
        raise TierError("the object store's URL has ? or # in it: settings have names of their own", Code.BAD_REQUEST)
    if parts.scheme not in SCHEMES:
        known = ", ".join(f"{each}://" for each in SCHEMES)
        raise TierError(f"{parts.scheme or 'no'}:// is not an object store's URL: {known} are", Code.BAD_REQUEST)
    if parts.scheme in ("s3", "gs", "az") and not parts.netloc:
        raise TierError(f"{url}: it names no bucket: {parts.scheme}://bucket/prefix is wanted", Code.BAD_REQUEST)
    if ":" in parts.netloc:
        raise TierError(f"{url}: a bucket has no port: set the endpoint instead", Code.BAD_REQUEST)
    if parts.scheme == "file":
        return "file", parts.netloc, unquote(parts.path)
    prefix = parts.path.strip("/")
    return parts.scheme, parts.netloc, checked_path(prefix) if prefix else ""


def folder_of(url: str) -> Path:
    """Return the folder of a `file:///folder`. Raises TierError."""
    _, host, path = _parts(url)
    return _folder(host, path)


def lies_in(url: str, root: str) -> bool:
    """True if a store's URL is another's, or below it. Of folders the places count that links lead to. Raises
    TierError."""
    (scheme, bucket, path), (of_root, root_bucket, root_path) = _parts(url), _parts(root)
    if scheme != of_root:
        return False
    if scheme == "file":
        inner, outer = (Path(os.path.realpath(_folder(*each))) for each in ((bucket, path), (root_bucket, root_path)))
        return inner.is_relative_to(outer)
    return bucket == root_bucket and PurePosixPath(path).is_relative_to(PurePosixPath(root_path))


def _folder(host: str, path: str) -> Path:
    if host not in ("", "localhost"):
        raise TierError(f"file://{host}: a folder has no host: file:///{host}... is wanted", Code.BAD_REQUEST)
    if not path.isprintable() or ".." in path.split("/"):
        fault = "its path goes up, or has control characters"
        raise TierError(f"file://{path!r} is not a folder: {fault}", Code.BAD_REQUEST)
    if not path.strip("/"):
        raise TierError("file:/// is the whole disk: name a folder", Code.BAD_REQUEST)
    return Path(path)


def _client_options(options: StoreOptions) -> ClientConfig:
    return {
        "allow_http": options.allow_http,
        "timeout": timedelta(seconds=options.request_seconds),
        "connect_timeout": timedelta(seconds=options.connect_seconds),
    }


def _retries(options: StoreOptions) -> RetryConfig:
    return {
        "max_retries": options.retries,
        "retry_timeout": timedelta(seconds=options.give_up_seconds),
        "backoff": {
            "init_backoff": timedelta(seconds=options.first_pause_seconds),
            "max_backoff": timedelta(seconds=options.longest_pause_seconds),
            "base": 2,
        },
    }


def _s3(bucket: str, prefix: str | None, options: StoreOptions) -> Client:
    """Return a client with explicit conditional puts: the environment must not switch off the separation of writers."""
    from obstore.store import S3Store

    config: S3Config = {"conditional_put": "etag", "virtual_hosted_style_request": options.virtual_hosted}
    if options.endpoint is not None:
        endpoint = options.endpoint.rstrip("/")
        config["endpoint"] = endpoint.replace("://", f"://{bucket}.", 1) if options.virtual_hosted else endpoint
    if options.region is not None:
        config["region"] = options.region
    if options.checksum:
        config["checksum_algorithm"] = "sha256"
    return S3Store(
        bucket, prefix=prefix, config=config, client_options=_client_options(options), retry_config=_retries(options)
    )


def _gcs(bucket: str, prefix: str | None, options: StoreOptions) -> Client:
    from obstore.store import GCSStore

    config: GCSConfig = {} if options.endpoint is None else {"base_url": options.endpoint.rstrip("/")}
    return GCSStore(
        bucket, prefix=prefix, config=config, client_options=_client_options(options), retry_config=_retries(options)
    )


def _azure(container: str, prefix: str | None, options: StoreOptions) -> Client:
    from obstore.store import AzureStore

    config: AzureConfig = {} if options.endpoint is None else {"endpoint": options.endpoint.rstrip("/")}
    return AzureStore(
        container, prefix=prefix, config=config, client_options=_client_options(options), retry_config=_retries(options)
    )


def _memory(_bucket: str, _prefix: str | None, _options: StoreOptions) -> Client:
    from obstore.store import MemoryStore

    return MemoryStore()


_CLIENTS: Final[dict[str, Callable[[str, str | None, StoreOptions], Client]]] = {
    "s3": _s3,
    "gs": _gcs,
    "az": _azure,
    "memory": _memory,
}
