"""gRPC's own services at a real server, asked by grpcio: health, and reflection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2

from entrepot.protocols.grpc import health
from entrepot.protocols.grpc.reflection import FILES, PACKAGES, Reflection
from tests.support.cases import cases
from tests.support.processes.server import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS

SERVICE = "apache.rocketmq.v2.MessagingService"
SECRET = {"security.initial_admin": "root", "security.initial_admin_password": "pw"}


@pytest.fixture
def channel(server: ServerProcess) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server.address("grpc")) as opened:
        yield opened


def status_of(channel: grpc.Channel, service: str) -> int:
    check = channel.unary_unary(
        f"/{health.SERVICE}/Check", health.Request.SerializeToString, health.Response.FromString
    )
    answer = check(health.Request(service=service), timeout=PATIENCE_SECONDS, wait_for_ready=True)
    return int(answer.status)


@cases("service", ["", SERVICE, health.SERVICE])
def test_a_server_that_takes_messages_is_serving(channel: grpc.Channel, service: str) -> None:
    assert status_of(channel, service) == health.SERVING


def test_an_unknown_service_is_not_found(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        status_of(channel, "nobody")
    assert refused.value.code() is grpc.StatusCode.NOT_FOUND


def test_bytes_that_are_no_request_are_refused(channel: grpc.Channel) -> None:
    for method in ("Check", "Watch"):
        call: Any = channel.unary_stream(f"/{health.SERVICE}/{method}", None, None)
        with pytest.raises(grpc.RpcError) as refused:
            list(call(b"\xff\xff", timeout=PATIENCE_SECONDS))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_health_needs_no_user_and_ends_with_the_server(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, SECRET) as server, grpc.insecure_channel(server.address("grpc")) as channel:
        watch: Any = channel.unary_stream(
            f"/{health.SERVICE}/Watch", health.Request.SerializeToString, health.Response.FromString
        )
        told = watch(health.Request(), timeout=PATIENCE_SECONDS, wait_for_ready=True)
        assert next(told).status == health.SERVING
        unknown = watch(health.Request(service="nobody"), timeout=PATIENCE_SECONDS)
        assert next(unknown).status == health.SERVICE_UNKNOWN
        unknown.cancel()
        server.terminate()
        assert [each.status for each in told] == [health.NOT_SERVING]
        assert server.wait() == 0


# -- reflection --------------------------------------------------------------------------------------------------------


class Asking:
    """A tool that asks one version."""

    def __init__(self, channel: grpc.Channel, package: str) -> None:
        types = Reflection(package, [])
        self.request = types.request
        path = f"/{package}.ServerReflection/ServerReflectionInfo"
        self._call = channel.stream_stream(path, types.request.SerializeToString, types.response.FromString)

    def ask(self, **what: Any) -> Any:
        [answer] = self._call(iter([self.request(host="h", **what)]), timeout=PATIENCE_SECONDS)
        assert answer.valid_host == "h" and answer.original_request == self.request(host="h", **what)
        return answer


@cases("package", PACKAGES)
def test_services_and_their_messages_are_told(channel: grpc.Channel, package: str) -> None:
    tool = Asking(channel, package)
    listed = [each.name for each in tool.ask(list_services="*").list_services_response.service]
    assert listed == sorted([SERVICE, health.SERVICE, *(f"{each}.ServerReflection" for each in PACKAGES)])
    for symbol in (SERVICE, "apache.rocketmq.v2.Message.UserPropertiesEntry", f"{SERVICE}.SendMessage"):
        told = tool.ask(file_containing_symbol=symbol).file_descriptor_response.file_descriptor_proto
        files = [descriptor_pb2.FileDescriptorProto.FromString(each) for each in told]
        assert files[0].package == "apache.rocketmq.v2"
        assert {each.name for each in files} >= set(files[0].dependency), "a tool needs what it imports"
    for file in (health.FILE, *FILES.values()):
        [told] = tool.ask(file_by_filename=file.name).file_descriptor_response.file_descriptor_proto
        assert descriptor_pb2.FileDescriptorProto.FromString(told) == file


@cases("package", PACKAGES)
def test_what_is_not_there_is_an_error_in_the_answer(channel: grpc.Channel, package: str) -> None:
    tool = Asking(channel, package)
    for what in ({"file_by_filename": "moon.proto"}, {"file_containing_symbol": "moon.Service"}):
        assert tool.ask(**what).error_response.error_code == 5
    extension = {"containing_type": "apache.rocketmq.v2.Message", "extension_number": 7}
    assert tool.ask(file_containing_extension=extension).error_response.error_code == 5
    assert tool.ask(all_extension_numbers_of_type="moon.Type").error_response.error_code == 5
    of = tool.ask(all_extension_numbers_of_type="apache.rocketmq.v2.Message").all_extension_numbers_response
    assert (of.base_type_name, list(of.extension_number)) == ("apache.rocketmq.v2.Message", [])
    assert tool.ask().error_response.error_code == 3
