"""Jobs that read a RocketMQ cluster by offset: the reader that blocks, and Spark's source over it without a JVM."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from entrepot.domain.errors import Code, CorruptedError, EntrepotError
from entrepot.domain.expression.filter import FilterExpression, FilterKind
from entrepot.domain.message import StoredMessage
from entrepot.domain.position import Position, PositionKind
from entrepot.domain.topic import Topic
from entrepot.protocols.rocketmq.remoting import codes as asked_for
from entrepot.protocols.wire.records import RecordColumns, RecordRun
from entrepot.protocols.wire.stored_record import decode_message
from entrepot.spark_ingest.ingest_options import IngestOptions
from entrepot.spark_ingest.job.settings import JobSettings, load_settings, save_settings
from entrepot.spark_ingest.job_of_options import job_of as given_job
from entrepot.spark_ingest.source.data_source import EntrepotReader, EntrepotStreamReader
from entrepot.spark_ingest.source.options import OptionError, read_location, read_options
from entrepot.spark_ingest.source.positions import DataLossError
from entrepot.spark_ingest.source.stores import close_readers
from entrepot.spark_ingest.source.writing import write_plan
from entrepot.store_client.blocking import MovesGroups, RocketMqPlace, RocketMqReader, StoreLocation, open_reader
from entrepot.store_client.blocking.store_thread import StoreThread
from entrepot.store_client.rocketmq import reading
from tests.support.clock import ManualClock
from tests.support.processes.certificates import TestAuthority
from tests.support.rocketmq import server as model
from tests.support.rocketmq.server import RocketMqServer
from tests.support.rocketmq.topics import RocketMqWriter
from tests.support.spark.topic_log import Row, log_of
from tests.support.waiting import PATIENCE_SECONDS, wait_until

BRIEF_SECONDS = 0.1
SCHEMA = StructType(
    [
        StructField("queue_id", IntegerType()),
        StructField("queue_offset", LongType()),
        StructField("tag", StringType()),
        StructField("body", BinaryType()),
    ]
)
Pull = Callable[..., Any]


@pytest.fixture
def thread() -> Iterator[StoreThread]:
    """The loop of the model of a cluster."""
    made = StoreThread(PATIENCE_SECONDS)
    yield made

    async def nothing() -> None: ...

    made.close(nothing)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cluster(thread: StoreThread, clock: ManualClock) -> Iterator[RocketMqServer]:
    """Two brokers of RocketMQ."""
    server = RocketMqServer(clock, 2)
    thread.run(server.start())
    yield server
    thread.run(server.close())


def place_of(cluster: RocketMqServer, **others: Any) -> RocketMqPlace:
    return RocketMqPlace((f"127.0.0.1:{cluster.port}",), **others)


@pytest.fixture
def location(cluster: RocketMqServer) -> StoreLocation:
    return StoreLocation(rocketmq=place_of(cluster), seconds=PATIENCE_SECONDS)


@pytest.fixture
def writer(cluster: RocketMqServer) -> Iterator[RocketMqWriter]:
    made = RocketMqWriter(f"127.0.0.1:{cluster.port}", route_refresh_ms=50)
    made.create("t", queues=2)
    yield made
    made.close()


@pytest.fixture
def reader(location: StoreLocation, writer: RocketMqWriter) -> Iterator[RocketMqReader]:
    made = open_reader(location)
    assert isinstance(made, RocketMqReader)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    close_readers()


def kept(thread: StoreThread, cluster: RocketMqServer, topic: str) -> list[Row]:
    """The rows of a topic as the brokers have them, without any client."""
    found: list[Row] = []
    for number, store in enumerate(cluster.brokers.values()):
        for bounds in thread.run(store.messages.bounds(topic)):
            messages = thread.run(store.messages.read(topic, bounds.queue_id, 0, 10_000))
            found += [(topic, number * 10_000 + m.queue_id, m.queue_offset, m.body) for m in messages]
    return found


def offsets(run: RecordRun) -> list[int]:
    return [int(each) for each in RecordColumns(run).queue_offsets]


def message_at(run: RecordRun, index: int) -> StoredMessage:
    place = int(run.entries["commit_log_offset"][index])
    return decode_message(bytes(run.data), int(run.starts[index]), place)


# -- reads -----------------------------------------------------------------------------------------------------------


def test_each_queue_of_each_broker_is_read_once_and_whole(
    thread: StoreThread, cluster: RocketMqServer, writer: RocketMqWriter, reader: RocketMqReader
):
    writer.append("t", (b"%d" % n for n in range(450)))
    assert {each.queue_id for each in reader.bounds("t")} == {0, 1, 10_000, 10_001}
    assert "t" in reader.topics() and "TBW102" not in reader.topics()
    found = log_of(reader, ["t"])
    assert len(found) == 450
    assert found == kept(thread, cluster, "t")


def test_a_range_is_exact_and_limited_in_bytes(writer: RocketMqWriter, reader: RocketMqReader):
    writer.append("t", (bytes(1000) for _ in range(100)), queue=1)
    run = reader.records("t", 1, 7, 77, 1 << 20)
    assert (offsets(run), run.next_offset) == ([*range(7, 77)], 77)
    assert (run.min_offset, run.max_offset) == (0, 100)
    few = reader.records("t", 1, 7, 77, 5_000)
    assert (offsets(few), few.next_offset) == ([7, 8, 9, 10], 11)
    assert offsets(reader.records("t", 1, 7, 77, 1)) == [7], "a single message always comes"
    nothing = reader.records("t", 1, 9, 9, 1 << 20)
    assert (len(nothing), nothing.next_offset) == (0, 9)
    end = reader.records("t", 1, 100, 200, 1 << 20)
    assert (len(end), end.next_offset) == (0, 100)
    for beyond in (-1, 101):
        with pytest.raises(EntrepotError) as refusal:
            reader.records("t", 1, beyond, 200, 1)
        assert refusal.value.code == Code.ILLEGAL_OFFSET


def test_a_message_has_all_that_was_sent(writer: RocketMqWriter, reader: RocketMqReader):
    fields = {"tag": "red", "keys": ("a", "b"), "message_group": "g", "properties": (("unit", "C"),)}
    writer.append("t", [b"\x00body"], sub_topic="t/line1", queue=10_001, **fields)
    found = message_at(reader.records("t", 10_001, 0, 1, 1), 0)
    assert (found.topic, found.sub_topic, found.queue_id, found.body) == ("t", "t/line1", 10_001, b"\x00body")
    assert {name: getattr(found, name) for name in fields} == fields
    assert found.commit_log_offset >> 44 == 1, "each broker has a log of its own"


def test_times_are_those_of_storing(clock: ManualClock, writer: RocketMqWriter, reader: RocketMqReader):
    writer.append("t", [b"old"] * 3, queue=0)
    clock.advance(10_000)
    middle = clock.now_ms()
    writer.append("t", [b"new"] * 3, queue=0)
    assert reader.offset_at("t", 0, Position(PositionKind.TIME, middle)) == 3
    assert reader.offset_at("t", 0, Position(PositionKind.EARLIEST)) == 0
    assert reader.offset_at("t", 0, Position(PositionKind.LATEST)) == 6


def test_a_size_is_judged_by_the_first_messages(writer: RocketMqWriter, reader: RocketMqReader):
    writer.append("t", (bytes(5_000) for _ in range(64)), queue=0)
    assert 64 * 5_000 < reader.bytes_between("t", 0, 0, 64) < 64 * 5_500
    assert reader.bytes_between("t", 0, 64, 64) == 0
    assert reader.bytes_between("t", 1, 50, 60) == 10 * 1024, "nothing is known of them"


def test_a_group_shows_how_far_a_job_is(writer: RocketMqWriter, reader: RocketMqReader):
    writer.append("t", [b"x"] * 8)
    assert isinstance(reader, MovesGroups)
    reader.move_group("job", "t", {0: 2, 10_000: 1})
    reader.move_group("job", "t", {0: 1, 10_000: 2})
    wait_until(lambda: "job" in writer.topics.groups(), "others hear of the group")
    progress = {each.queue_id: each.committed_offset for each in writer.topics.group_status("job").progress}
    assert (progress[0], progress[10_000]) == (1, 2)


# -- filters ---------------------------------------------------------------------------------------------------------


def test_tags_are_sought_by_the_broker_and_here(
    cluster: RocketMqServer, writer: RocketMqWriter, reader: RocketMqReader
):
    for tag in ("red", "blue", "green"):
        writer.append("t", [tag.encode()] * 50, queue=0, tag=tag)
    run = reader.records("t", 0, 0, 150, 1 << 20, FilterExpression(FilterKind.TAG, "blue || green"))
    assert (offsets(run), run.next_offset) == ([*range(50, 150)], 150)
    assert {each.fields["subscription"] for each in cluster.asked(asked_for.PULL)} == {"blue || green"}
    assert offsets(reader.records("t", 0, 0, 150, 1 << 20, FilterExpression(FilterKind.TAG, " * "))) == [*range(150)]


def test_a_broker_that_finds_too_much_is_corrected(
    monkeypatch: pytest.MonkeyPatch, writer: RocketMqWriter, reader: RocketMqReader
):
    """It compares hashes of tags."""
    writer.append("t", [b"x"] * 3, queue=0, tag="red")
    writer.append("t", [b"x"] * 3, queue=0, tag="blue")
    pull = model._AT_BROKER[11]

    async def everything(self: Any, broker: Any, told: dict[str, str], body: bytes) -> Any:
        return await pull(self, broker, {**told, "subscription": "*"}, body)

    monkeypatch.setitem(model._AT_BROKER, 11, everything)
    run = reader.records("t", 0, 0, 6, 1 << 20, FilterExpression(FilterKind.TAG, "blue"))
    assert (offsets(run), run.next_offset) == ([3, 4, 5], 6)


def test_what_rocketmq_cannot_say_is_sought_here(
    cluster: RocketMqServer, writer: RocketMqWriter, reader: RocketMqReader
):
    writer.append("t", [b"x"] * 40, queue=0, tag="one|two")
    writer.append("t", [b"x"] * 4, queue=0, sub_topic="t/line1")
    run = reader.records("t", 0, 0, 44, 1 << 20, FilterExpression(FilterKind.TAG, "one|two"))
    assert offsets(run) == [*range(40)]
    run = reader.records("t", 0, 0, 44, 1 << 20, FilterExpression(FilterKind.SUB_TOPIC, "+/line1"))
    assert (offsets(run), run.next_offset) == ([*range(40, 44)], 44)
    assert {each.fields["subscription"] for each in cluster.asked(asked_for.PULL)} == {"*"}


# -- what is missing, odd or away ------------------------------------------------------------------------------------


def test_what_a_broker_cannot_read_for_a_moment_is_no_gap(
    monkeypatch: pytest.MonkeyPatch, writer: RocketMqWriter, reader: RocketMqReader
):
    """It passes over all that follows in the same file, within an answer and as one without messages (code 20)."""
    monkeypatch.setattr(reading, "TRY_SECONDS", 0.0)
    writer.append("t", [b"x"] * 20, queue=0)
    pull: Pull = model._AT_BROKER[11]
    left = [5]

    async def unread(self: Any, broker: Any, told: dict[str, str], body: bytes) -> Any:
        start = int(told["queueOffset"])
        if not left[0] or start > 7:
            return await pull(self, broker, told, body)
        if start == 7:
            left[0] -= 1
            raise model.Refused(20, "", {"minOffset": 0, "maxOffset": 20, "nextBeginOffset": 20})
        found, records = await pull(self, broker, {**told, "maxMsgNums": str(7 - start)}, body)
        return {**found, "nextBeginOffset": 20}, records

    monkeypatch.setitem(model._AT_BROKER, 11, unread)
    run = reader.records("t", 0, 0, 20, 1 << 20)
    assert (offsets(run), run.next_offset, left) == ([*range(20)], 20, [0])


def test_gaps_are_passed(monkeypatch: pytest.MonkeyPatch, writer: RocketMqWriter, reader: RocketMqReader):
    """Offsets that a broker leaves out: within an answer, and as an answer without messages (codes 19 and 20)."""
    monkeypatch.setattr(reading, "TRY_SECONDS", 0.0)
    writer.append("t", [b"x"] * 100, queue=0)
    pull: Pull = model._AT_BROKER[11]
    codes = {10: 19, 60: 20}

    async def with_gaps(self: Any, broker: Any, told: dict[str, str], body: bytes) -> Any:
        start = int(told["queueOffset"])
        for at, code in codes.items():
            if at <= start < at + 20:
                bounds = {"minOffset": 0, "maxOffset": 100, "nextBeginOffset": at + 20}
                raise model.Refused(code, "", bounds)
            if start < at:
                count = min(int(told["maxMsgNums"]), at - start)
                return await pull(self, broker, {**told, "maxMsgNums": str(count)}, body)
        return await pull(self, broker, told, body)

    monkeypatch.setitem(model._AT_BROKER, 11, with_gaps)
    run = reader.records("t", 0, 0, 100, 1 << 20)
    assert (offsets(run), run.next_offset) == ([*range(10), *range(30, 60), *range(80, 100)], 100)
    inside = reader.records("t", 0, 15, 25, 1 << 20)
    assert (len(inside), inside.next_offset) == (0, 25)


def test_a_corrupted_message_is_told_and_the_others_are_read(
    monkeypatch: pytest.MonkeyPatch, writer: RocketMqWriter, reader: RocketMqReader, location: StoreLocation
):
    writer.append("t", (b"body-%d" % n for n in range(20)), queue=0)
    encode = model.encode_record
    monkeypatch.setattr(model, "encode_record", lambda record: encode(record).replace(b"body-7", b"hurt-7"))
    run = reader.records("t", 0, 0, 20, 1 << 20)
    assert (offsets(run), run.next_offset) == ([*range(7), *range(8, 20)], 20)
    with pytest.raises(CorruptedError, match="message 7 of t/0 is corrupted"):
        RecordColumns(run).check("t/0", run)
    options = {"subscribe": "t", **job_of(location).source_options(), "parse": "none"}
    with pytest.raises(CorruptedError, match="message 7 of t/0 is corrupted"):
        read_all(options)
    assert len(read_all({**options, "failOnDataLoss": "false"})) == 19


def test_an_answer_that_falls_apart_is_one_corrupted_message(
    monkeypatch: pytest.MonkeyPatch, writer: RocketMqWriter, reader: RocketMqReader
):
    writer.append("t", (b"body-%d" % n for n in range(10)), queue=0)
    encode = model.encode_record
    monkeypatch.setattr(
        model, "encode_record", lambda record: bytes(80) if record.body == b"body-4" else encode(record)
    )
    run = reader.records("t", 0, 0, 10, 1 << 20)
    columns = RecordColumns(run)
    assert [int(run.entries["queue_offset"][at]) for at in columns.corrupted] == [4]
    assert offsets(run) == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_a_message_that_has_no_record_is_told(writer: RocketMqWriter, reader: RocketMqReader):
    """RocketMQ's tags may be longer than ours."""
    writer.append("t", [b"x"], queue=0, tag="t" * 300)
    writer.append("t", [b"y"], queue=0)
    run = reader.records("t", 0, 0, 2, 1 << 20)
    assert (RecordColumns(run).corrupted, offsets(run)) == ([0], [1])


def test_a_broker_that_is_away_makes_bounds_unavailable(
    thread: StoreThread, cluster: RocketMqServer, writer: RocketMqWriter, location: StoreLocation
):
    """Name servers forget it: of a reader that has never seen it, the caller's offsets tell."""
    writer.append("t", [b"x"] * 8)
    brief = StoreLocation(rocketmq=location.rocketmq, seconds=BRIEF_SECONDS)
    with closing(open_reader(brief)) as before:
        queues = [each.queue_id for each in before.bounds("t")]
        thread.run(cluster.stop_broker("broker-1"))
        check_unavailable(lambda: before.bounds("t"))
        check_unavailable(lambda: before.records("t", 10_000, 0, 2, 1))
    reader = open_reader(brief)
    assert isinstance(reader, RocketMqReader)
    with closing(reader):
        assert [each.queue_id for each in reader.bounds("t")] == [0, 1]
        check_unavailable(lambda: reader.bounds("t", queues))
        check_unavailable(lambda: reader.records("t", 10_000, 0, 2, 1))
        thread.run(cluster.start_broker("broker-1"))
        assert [each.queue_id for each in reader.bounds("t", queues)] == queues
        assert len(reader.records("t", 10_000, 0, 2, 1 << 20)) == 2


def check_unavailable(ask: Callable[[], object]) -> None:
    with pytest.raises(EntrepotError) as refusal:
        ask()
    assert refusal.value.code == Code.UNAVAILABLE


def test_a_queue_that_a_broker_does_not_have_any_more_is_gone(
    thread: StoreThread, cluster: RocketMqServer, writer: RocketMqWriter, reader: RocketMqReader
):
    thread.run(cluster.brokers["broker-1"].topology.delete_topic("t"))
    with closing(open_reader(StoreLocation(rocketmq=place_of(cluster)))) as fresh:
        assert isinstance(fresh, RocketMqReader)
        assert [each.queue_id for each in fresh.bounds("t", [0, 1, 10_000, 10_001])] == [0, 1]
        with pytest.raises(EntrepotError, match="there is no queue 10000"):
            fresh.records("t", 10_000, 0, 1, 1)


def test_a_slave_that_has_less_or_serves_no_reads_is_waited_for(
    thread: StoreThread, cluster: RocketMqServer, writer: RocketMqWriter
):
    """A slave that serves no reads answers with code 20 and goes on, as if nothing had matched."""
    writer.append("t", [b"x"] * 4, queue=10_000)
    cluster.at["broker-1"].has_master = False
    with closing(open_reader(StoreLocation(rocketmq=place_of(cluster), seconds=BRIEF_SECONDS))) as reader:
        lagging = {each.queue_id: each.may_lag for each in reader.bounds("t")}
        assert lagging == {0: False, 1: False, 10_000: True, 10_001: True}
        assert len(reader.records("t", 10_000, 0, 4, 1 << 20)) == 4
        check_unavailable(lambda: reader.records("t", 10_000, 4, 6, 1 << 20))
        check_unavailable(lambda: reader.records("t", 10_000, 5, 6, 1 << 20))
        cluster.faults[asked_for.PULL] = [(asked_for.PULL_RETRY,)] * 9
        check_unavailable(lambda: reader.records("t", 10_000, 0, 4, 1 << 20))


# -- where it is -----------------------------------------------------------------------------------------------------


def test_requests_are_signed_with_the_secret_of_a_file(
    thread: StoreThread, cluster: RocketMqServer, writer: RocketMqWriter, tmp_path: Path
):
    writer.append("t", [b"x"] * 4)
    cluster.accounts = {"reader": "s3cret"}
    (tmp_path / "secret").write_text("s3cret\n")
    place = place_of(cluster, access_key="reader")
    location = StoreLocation(rocketmq=place, secret_file=str(tmp_path / "secret"))
    with closing(open_reader(location)) as reader:
        assert len(log_of(reader, ["t"])) == 4
    assert "s3cret" not in f"{location}{job_of(location).source_options()}"
    with pytest.raises(EntrepotError, match="no-file cannot be read"):
        open_reader(StoreLocation(rocketmq=place, secret_file=str(tmp_path / "no-file")))
    with pytest.raises(EntrepotError) as refusal:
        open_reader(StoreLocation(rocketmq=place_of(cluster, access_key="stranger")))
    assert refusal.value.code in (Code.FORBIDDEN, Code.UNAUTHORIZED)


def test_tls_is_spoken_to_servers_that_are_trusted(thread: StoreThread, clock: ManualClock, tmp_path: Path):
    authority = TestAuthority(tmp_path)
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(authority.issue("broker"))
    cluster = RocketMqServer(clock, tls=shown)
    thread.run(cluster.start())
    thread.run(cluster.put_topic(Topic("t", queues=1)))
    trusted = StoreLocation(rocketmq=place_of(cluster), tls=("", "", str(authority.file)))
    with closing(open_reader(trusted)) as reader:
        assert [each.queue_id for each in reader.bounds("t")] == [0]
    check_unavailable(
        lambda: open_reader(StoreLocation(rocketmq=place_of(cluster, has_tls=True), seconds=BRIEF_SECONDS))
    )
    with pytest.raises(EntrepotError, match="tls: the files cannot be used"):
        open_reader(replace(trusted, tls=("", "", str(tmp_path / "no-file"))))
    thread.run(cluster.close())


def test_a_namespace_and_other_addresses(thread: StoreThread, cluster: RocketMqServer, writer: RocketMqWriter):
    for store in cluster.brokers.values():
        thread.run(store.topology.put_namespace("team"))
    writer.create("team/u", queues=1)
    writer.append("team/u", [b"x"] * 3, queue=0)
    told = f"127.0.0.1:{cluster.at['broker-0'].port}"
    place = place_of(cluster, namespace="team", addresses=((told, told),))
    with closing(open_reader(StoreLocation(rocketmq=place))) as reader:
        assert [(topic, queue, at) for topic, queue, at, _ in log_of(reader, ["u"])] == [
            ("u", 0, 0), ("u", 0, 1), ("u", 0, 2),
        ]  # fmt: skip


def job_of(location: StoreLocation, **others: Any) -> JobSettings:
    return JobSettings(location, "/nowhere/t", subscribe="t", **others)


def test_options_name_one_store_and_come_back(tmp_path: Path):
    options = {
        "rocketmq.nameServers": "a:9876,b:9876",
        "rocketmq.namespace": "team",
        "rocketmq.addresses": "10.0.0.1:10911=gate:1,10.0.0.2:10911=gate:2",
        "rocketmq.accessKey": "reader",
        "rocketmq.tls": "true",
        "cluster": "DefaultCluster",
        "secretFile": "/etc/secret",
    }
    location = read_location(options)
    addresses = (("10.0.0.1:10911", "gate:1"), ("10.0.0.2:10911", "gate:2"))
    assert location.rocketmq == RocketMqPlace(("a:9876", "b:9876"), "team", addresses, "reader", True)
    assert location.text == "a:9876,b:9876"
    settings = JobSettings(location, str(tmp_path / "t"), subscribe="t")
    assert options.items() <= settings.source_options().items()
    save_settings(settings)
    assert load_settings(settings.checkpoint_path) == settings
    for wrong, said in (
        ({"servers": "a:1"}, "one of the four"),
        ({"tier.url": "s3://b"}, "leave out tier and zone"),
        ({"rocketmq.nameServers": ""}, "give its name servers, too"),
        ({"rocketmq.addresses": "gate:1"}, "told=reached"),
    ):
        with pytest.raises(OptionError, match=said):
            read_location({**options, **wrong})


def test_the_command_names_a_cluster_and_makes_no_group_by_itself(tmp_path: Path):
    given = IngestOptions(
        table=str(tmp_path / "t"),
        topic="t",
        rocketmq_nameserver="a:9876",
        rocketmq_addresses="b:1=c:2",
        tls=",,/ca.pem",
    )
    settings = given_job(given).settings
    place = RocketMqPlace(("a:9876",), addresses=(("b:1", "c:2"),))
    assert settings.location == StoreLocation(rocketmq=place, tls=("", "", "/ca.pem"))
    assert settings.group == ""
    assert given_job(replace(given, group="g")).settings.group == "g"
    ours = replace(given, rocketmq_nameserver="", rocketmq_addresses="", server="a:1")
    assert given_job(ours).settings.group == "ingest-t"


def test_rows_are_not_written_to_rocketmq():
    schema = StructType([StructField("body", StringType())])
    with pytest.raises(OptionError, match="a RocketMQ cluster is only read"):
        write_plan({"rocketmq.nameServers": "a:9876", "topic": "t"}, schema, "w")


# -- Spark's source --------------------------------------------------------------------------------------------------


def read_all(options: dict[str, str]) -> list[dict[str, Any]]:
    """The rows of a batch read, as its tasks make them."""
    reader = EntrepotReader(read_options(options), SCHEMA)
    return [row for piece in reader.partitions() for batch in reader.read(piece) for row in batch.to_pylist()]


def rows_between(reader: EntrepotStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[Row]:
    batches = [batch for piece in reader.partitions(start, end) for batch in reader.read(piece)]
    rows = pa.Table.from_batches(batches).to_pylist() if batches else []
    return [("t", row["queue_id"], row["queue_offset"], row["body"]) for row in rows]


def options_of(location: StoreLocation, **more: str) -> dict[str, str]:
    return {**job_of(location).source_options(), "parse": "none", "timeoutSeconds": "1", **more}


def test_a_batch_is_the_log(
    thread: StoreThread, clock: ManualClock, cluster: RocketMqServer, writer: RocketMqWriter, location: StoreLocation
):
    writer.append("t", (b"%d" % n for n in range(300)), tag="old")
    clock.advance(5_000)
    writer.append("t", (b"%d" % n for n in range(300, 340)), tag="new")
    options = options_of(location, minPartitions="3", maxRecordsPerPartition="70")
    rows = [("t", row["queue_id"], row["queue_offset"], row["body"]) for row in read_all(options)]
    assert sorted(rows) == sorted(kept(thread, cluster, "t"))
    tagged = read_all({**options, "filter": "new", "filterType": "tag"})
    assert {row["tag"] for row in tagged} == {"new"} and len(tagged) == 40
    del options["startingOffsets"]
    late = read_all({**options, "startingTimestamp": str(clock.now_ms())})
    assert {row["tag"] for row in late} == {"new"} and len(late) == 40


def test_a_stream_waits_for_a_broker_and_has_each_row_once(
    thread: StoreThread, cluster: RocketMqServer, writer: RocketMqWriter, location: StoreLocation
):
    """Each reader is a driver that was started anew: it knows the checkpoint alone."""
    options = options_of(location, maxOffsetsPerTrigger="64")
    found: list[Row] = []

    def fresh() -> EntrepotStreamReader:
        close_readers()
        return EntrepotStreamReader(read_options(options), SCHEMA)

    def read_on(start: dict[str, Any]) -> dict[str, Any]:
        driver = fresh()
        while (end := driver.latestOffset(start)) != start:
            assert sum(end["t"].values()) - sum(start["t"].values()) <= 64
            found.extend(rows_between(driver, start, end))
            start = end
        return start

    at = fresh().initialOffset()
    writer.append("t", (b"%d" % n for n in range(100)))
    at = read_on(at)
    thread.run(cluster.stop_broker("broker-1"))
    for name in ({"subscribe": "t"}, {"subscribe": "", "subscribePattern": "t.*", "failOnDataLoss": "false"}):
        options.update(name)
        away = fresh()
        away.prepareForTriggerAvailableNow()
        check_unavailable(lambda: away.latestOffset(at))  # noqa: B023
    thread.run(cluster.start_broker("broker-1"))
    writer.append("t", (b"%d" % n for n in range(100, 160)))
    while (end := away.latestOffset(at)) != at:
        found.extend(rows_between(away, at, end))
        at = end
    read_on(at)
    assert sorted(found) == sorted(kept(thread, cluster, "t"))


def test_a_topic_whose_only_broker_is_away_is_not_gone(
    thread: StoreThread, cluster: RocketMqServer, writer: RocketMqWriter, location: StoreLocation
):
    thread.run(cluster.brokers["broker-1"].topology.put_topic(Topic("u", queues=1)))
    at = {"u": {"10000": 0}}
    thread.run(cluster.stop_broker("broker-1"))
    for name in ({"subscribe": "u"}, {"subscribePattern": "u|t", "subscribe": ""}):
        close_readers()
        driver = EntrepotStreamReader(read_options(options_of(location, **name, failOnDataLoss="false")), SCHEMA)
        check_unavailable(lambda: driver.latestOffset(at))  # noqa: B023


def test_streams_take_a_spark_that_tells_what_was_read(writer: RocketMqWriter, location: StoreLocation):
    driver = EntrepotStreamReader(read_options(options_of(location)), SCHEMA)
    with pytest.raises(OptionError, match=r"take Spark 4\.2 or newer"):
        driver.latestOffset()


def test_messages_that_are_gone_are_told(
    thread: StoreThread, cluster: RocketMqServer, writer: RocketMqWriter, location: StoreLocation
):
    writer.append("t", [b"x"] * 40)
    driver = EntrepotStreamReader(read_options(options_of(location)), SCHEMA)
    end = driver.latestOffset(driver.initialOffset())
    for store in cluster.brokers.values():
        thread.run(store.topology.delete_topic("t"))
        thread.run(store.topology.put_topic(Topic("t", queues=2)))
    with pytest.raises(DataLossError, match="was the topic made anew"):
        driver.latestOffset(end)
