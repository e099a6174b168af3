"""Opening of the store that the settings name: in this process, on other machines, or an Apache RocketMQ cluster."""

from __future__ import annotations

import errno
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from entrepot.domain.broker_of_queue import broker_number
from entrepot.domain.clock import Clock
from entrepot.domain.errors import Code, EntrepotError
from entrepot.domain.ports import Store
from entrepot.domain.ports.facts import Facts
from entrepot.domain.replication.confirmation_rule import parse_rule
from entrepot.gateway.facts import open_facts
from entrepot.gateway.settings import BackupSettings, Settings, TierSettings
from entrepot.gateway.settings.facts import FactsSettings
from entrepot.gateway.transport.binding import address_of

if TYPE_CHECKING:
    from entrepot.store_client.embedded import EmbeddedSettings, NameServer, ServedBroker, ServedController
    from entrepot.store_client.remote import RemoteSettings


async def open_store(settings: Settings, clock: Clock, number: int = 0) -> Store:
    """Open the store that the settings name; `number` tells its queues from other brokers'. Raises BAD_REQUEST where
    the settings do not go together, StoreFailedError, CorruptedError."""
    kept = settings.store
    _check_facts(settings)
    try:
        return await _open_here(settings, clock, number)
    except OSError as error:
        raise unusable(kept.data_dir, error) from error


async def _open_here(settings: Settings, clock: Clock, number: int) -> Store:
    from entrepot.store_client.embedded import open_embedded

    return await open_embedded(_settings_here(settings, number), clock)


def served_number(settings: Settings, *, is_alone: bool) -> int:
    """The number of a broker that gateways of other processes reach, where its data have none yet. `is_alone`: it is
    the only broker, unless the settings give it a number or name servers."""
    named = settings.broker
    if named.number is not None:
        return named.number
    return 0 if is_alone and not settings.cluster.name_servers else broker_number(named.name)


def _settings_here(settings: Settings, number: int) -> EmbeddedSettings:
    from entrepot.store_client.embedded import embedded_settings

    kept = settings.store
    return embedded_settings(
        kept.data_dir,
        segment_size_bytes=kept.segment_size_bytes,
        preallocate_bytes=kept.preallocate_bytes,
        reserve_bytes=kept.reserve_bytes,
        flush_async=kept.flush == "async",
        linger_ms=kept.flush_linger_us_max / 1000,
        max_unconfirmed_bytes=kept.max_unconfirmed_bytes,
        max_message_bytes=kept.max_message_bytes,
        max_in_flight_per_queue=kept.max_in_flight_per_queue,
        hold_back_limit=kept.hold_back_messages,
        retention_seconds=kept.retention_seconds,
        retention_interval_seconds=kept.retention_interval_seconds,
        clock_is_right=kept.clock_is_right,
        free_bytes=(kept.disk_warn_free_bytes, kept.disk_refuse_free_bytes, kept.disk_emergency_free_bytes),
        index_sizes=(kept.index_slots, kept.index_entries),
        transaction_check_after_ms=int(kept.transaction_check_after_seconds * 1000),
        transaction_check_interval_ms=int(kept.transaction_check_interval_seconds * 1000),
        transaction_max_checks=kept.transaction_max_checks,
        checkpoint_interval_bytes=kept.checkpoint_interval_bytes,
        checkpoint_interval_seconds=kept.checkpoint_interval_seconds,
        group_defaults=settings.groups.new_group("defaults"),
        name=settings.broker.name,
        tier=_tier_settings(settings.tier, number),
        backup=_backup_settings(settings.backup),
    )


def _backup_settings(backup: BackupSettings) -> dict[str, Any]:
    """Fields of the broker's `BackupSettings` by name."""
    return {
        "place": backup.place,
        "key_file": backup.key_file,
        "is_plain": backup.plain,
        "endpoint": backup.endpoint or None,
        "region": backup.region or None,
        "allow_http": backup.allow_http,
    }


def _tier_settings(tier: TierSettings, number: int) -> dict[str, Any] | None:
    """Fields of the broker's `TierSettings` by name; None where there is no tier."""
    if not tier.url:
        return None
    return {
        "url": tier.url,
        "number": number,
        "segment_bytes": tier.segment_bytes,
        "max_age_seconds": tier.max_age_seconds,
        "requests_per_hour": tier.requests_per_hour,
        "vacuum_grace_seconds": tier.vacuum_grace_seconds,
        "cache_bytes": tier.cache_bytes,
        "max_kept_bytes": tier.max_kept_bytes,
        "missing": tier.missing,
        "attach_endpoints": tuple(tier.attach_endpoints),
        "attach_urls": tuple(tier.attach_urls),
        "read": tier.read,
        "payload": tier.payload,
        "cluster": tier.cluster,
        "iceberg": tier.iceberg,
        "options": tier.options(),
    }


_WORDS: Final = {
    errno.EACCES: "this user may not write there",
    errno.EPERM: "this user may not write there",
    errno.EEXIST: "it is a file, not a directory",
    errno.ENOTDIR: "a part of the path is a file, not a directory",
    errno.EROFS: "the file system is read-only",
    errno.ENOENT: "no directory can be made there",
    errno.ENOSPC: "the disk is full",
}


def unusable(data_dir: Path, error: OSError, key: str = "store.data_dir") -> EntrepotError:
    """The error for a data directory that cannot be used; `key` is the setting that names it."""
    why = _WORDS.get(error.errno or 0) or error.strerror or str(error)
    named = "" if error.filename is None or str(error.filename) == str(data_dir) else f" ({error.filename})"
    return EntrepotError(
        Code.BAD_REQUEST, f"the data directory {data_dir} cannot be used: {why}{named}. {key} names another"
    )


async def open_store_elsewhere(settings: Settings, clock: Clock) -> Store:
    """Open a store on other machines: an Apache RocketMQ cluster if one is named, else this deployment's brokers.
    Raises UNAVAILABLE where none answers, BAD_REQUEST where the settings name none."""
    if settings.rocketmq.name_servers:
        return await _open_rocketmq(settings, clock)
    _check_facts(settings)
    from entrepot.store_client.remote import open_remote

    named = settings.cluster
    return await open_remote(_remote_settings(settings, named.name_servers, named.brokers), clock)


def _remote_settings(settings: Settings, name_servers: Sequence[str], brokers: Sequence[str]) -> RemoteSettings:
    """Return how to reach brokers of ours, found by name servers or by their addresses."""
    from entrepot.store_client.remote import RemoteSettings

    named = settings.cluster
    return RemoteSettings(
        name_servers=name_servers,
        brokers=brokers,
        route_cache=named.route_cache,
        cluster=named.name,
        zone=named.zone,
        reads_nearest=named.reads == "nearest",
        start_seconds=named.start_seconds,
        request_seconds=named.request_seconds,
        silence_seconds=named.silence_seconds,
        group_defaults=settings.groups.new_group("defaults"),
        trust=named.trust(),
        controllers=named.controller_addresses(),
    )


async def _open_rocketmq(settings: Settings, clock: Clock) -> Store:
    from entrepot.store_client.rocketmq import open_rocketmq

    named, facts = settings.rocketmq, await _open_facts(settings, clock)
    try:
        return await open_rocketmq(
            clock=clock,
            facts=facts,
            group_defaults=settings.groups.new_group("defaults"),
            confirms_less_safe=named.confirms_less_safe,
            **named.place(named.secret.get_secret_value()),
        )
    except BaseException:
        if facts is not None:
            await facts.close()
        raise


async def _open_facts(settings: Settings, clock: Clock) -> Facts | None:
    """Open the keepers of key-values that the settings name."""

    async def directory(path: Path) -> Store:
        kept = settings.store.model_copy(update={"data_dir": path})
        changed = {"store": kept, "tier": TierSettings(), "facts": FactsSettings()}
        return await open_store(settings.model_copy(update=changed), clock)

    async def brokers(name_servers: tuple[str, ...]) -> Store:
        from entrepot.store_client.remote import open_remote

        return await open_remote(_remote_settings(settings, name_servers, ()), clock)

    return await open_facts(settings.facts, settings.cluster.name, directory, brokers)


def _check_facts(settings: Settings) -> None:
    """Refuse facts beside a store that keeps key-values itself."""
    if settings.facts.url:
        raise EntrepotError(Code.BAD_REQUEST, "facts.url is for a RocketMQ cluster, which rocketmq.name_servers names")


def open_broker_listener(
    settings: Settings, store: Store, listener: socket.socket, clock: Clock, *, is_alone: bool = True
) -> ServedBroker:
    """Open the port through which gateways on other machines reach an embedded store. `is_alone`: it is the only
    broker, unless the settings give it a number or name servers."""
    from entrepot.store_client.embedded import serve_embedded

    named, cluster = settings.broker, settings.cluster
    number = 0 if is_alone and named.number is None and not cluster.name_servers else named.number
    return serve_embedded(store, listener, clock, **_listener_settings(settings, listener, number))


async def open_replica(settings: Settings, listener: socket.socket, clock: Clock) -> ServedBroker:
    """Open a replica of a broker group behind a listening socket."""
    from entrepot.store_client.embedded import make_replica

    named = settings.broker
    try:
        return make_replica(
            _settings_here(settings, served_number(settings, is_alone=False)),
            listener,
            clock,
            replica=named.replica_id,
            addresses=named.group_addresses(),
            rule=parse_rule(named.rule, len(named.replicas), named.min_in_sync),
            observers=named.observer_ids(),
            rates=(named.compare_bytes_per_second, named.copy_bytes_per_second),
            controllers=tuple(settings.cluster.controller_addresses().values()),
            lease=settings.cluster.lease_seconds,
            elects_async=named.elects_async,
            **_listener_settings(settings, listener, named.number),
        )
    except OSError as error:
        raise unusable(settings.store.data_dir, error) from error


def make_name_server(settings: Settings, listener: socket.socket) -> NameServer:
    """Make a name server behind a listening socket."""
    from entrepot.store_client.embedded import make_name_server

    cluster = settings.cluster
    return make_name_server(
        listener, trust=cluster.trust(), lease_seconds=settings.nameserver.lease_seconds, cluster=cluster.name
    )


def make_controller(settings: Settings, listening: socket.socket | NameServer, clock: Clock) -> ServedController:
    """Make a controller, behind a listening socket or in a name server."""
    from entrepot.store_client.embedded import make_controller

    named, cluster = settings.controller, settings.cluster
    try:
        return make_controller(
            listening,
            clock,
            controller=named.id,
            addresses=cluster.controller_addresses(),
            data_dir=named.data_dir,
            lease=cluster.lease_seconds,
            cluster=cluster.name,
            silence_seconds=cluster.silence_seconds,
            trust=cluster.trust(),
        )
    except OSError as error:
        raise unusable(named.data_dir, error, "controller.data_dir") from error


def _listener_settings(settings: Settings, listener: socket.socket, number: int | None) -> dict[str, Any]:
    """Fields of `BrokerProcessSettings` by name."""
    named, cluster = settings.broker, settings.cluster
    return {
        "name": named.name,
        "number": number,
        "address": named.advertise or address_of(listener),
        "zone": named.zone,
        "cluster": cluster.name,
        "name_servers": cluster.name_servers,
        "keeps_key_values": {"yes": True, "no": False, "auto": None}[named.keeps_key_values],
        "register_seconds": named.register_seconds,
        "heartbeat_seconds": named.heartbeat_seconds,
        "silence_seconds": cluster.silence_seconds,
        "trust": cluster.trust(),
    }
