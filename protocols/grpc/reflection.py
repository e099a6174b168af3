"""gRPC's server reflection (grpc.reflection.v1 and v1alpha, which are alike): tools such as grpcurl ask it for the
services, and for the form of their messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import FileDescriptor

from entrepot.protocols.grpc.described import described_file, message_types
from entrepot.protocols.grpc.status import Status

PACKAGES: Final = ("grpc.reflection.v1", "grpc.reflection.v1alpha")
METHOD: Final = "ServerReflectionInfo"
_EXTENSION: Final = {"containing_type": (1, "string"), "extension_number": (2, "int32")}
_MESSAGES: Final = {
    "ExtensionRequest": _EXTENSION,
    "ServerReflectionRequest": {
        "host": (1, "string"),
        "file_by_filename": (3, "string"),
        "file_containing_symbol": (4, "string"),
        "file_containing_extension": (5, "ExtensionRequest"),
        "all_extension_numbers_of_type": (6, "string"),
        "list_services": (7, "string"),
    },
    "FileDescriptorResponse": {"file_descriptor_proto": (1, "repeated bytes")},
    "ExtensionNumberResponse": {"base_type_name": (1, "string"), "extension_number": (2, "repeated int32")},
    "ServiceResponse": {"name": (1, "string")},
    "ListServiceResponse": {"service": (1, "repeated ServiceResponse")},
    "ErrorResponse": {"error_code": (1, "int32"), "error_message": (2, "string")},
    "ServerReflectionResponse": {
        "valid_host": (1, "string"),
        "original_request": (2, "ServerReflectionRequest"),
        "file_descriptor_response": (4, "FileDescriptorResponse"),
        "all_extension_numbers_response": (5, "ExtensionNumberResponse"),
        "list_services_response": (6, "ListServiceResponse"),
        "error_response": (7, "ErrorResponse"),
    },
}
_ONE_OF: Final = {
    "ServerReflectionRequest": ("message_request", 3),
    "ServerReflectionResponse": ("message_response", 4),
}
"""The `oneof` of a message, and the first number of its fields."""


def _described(package: str) -> descriptor_pb2.FileDescriptorProto:
    name = f"{package.replace('.', '/')}/reflection.proto"
    methods = {METHOD: ("ServerReflectionRequest", "ServerReflectionResponse", True, True)}
    file = described_file(name, package, _MESSAGES, {}, "ServerReflection", methods)
    for message in file.message_type:
        if message.name in _ONE_OF:
            title, least = _ONE_OF[message.name]
            message.oneof_decl.add(name=title)
            for field in message.field:
                if field.number >= least:
                    field.MergeFrom(descriptor_pb2.FieldDescriptorProto(oneof_index=0))
    return file


FILES: Final = {package: _described(package) for package in PACKAGES}


class Reflection:
    """Answers of one version, over the files of all services.  `package`: that of the version."""

    def __init__(self, package: str, files: Iterable[descriptor_pb2.FileDescriptorProto]) -> None:
        types = message_types(FILES[package])
        self.request: Any = types["ServerReflectionRequest"]
        self.response: Any = types["ServerReflectionResponse"]
        self._files = {file.name: file for file in files}
        self._of_symbol = {symbol: file.name for file in self._files.values() for symbol in _symbols(file)}
        self._services = sorted(
            f"{file.package}.{service.name}" for file in self._files.values() for service in file.service
        )

    def answer(self, question: Any) -> Any:
        """Return the answer to one request; what is not there is an error in it."""
        answer = self.response(valid_host=question.host, original_request=question)
        kind = question.WhichOneof("message_request")
        if kind == "list_services":
            for name in self._services:
                answer.list_services_response.service.add(name=name)
        elif kind in ("file_by_filename", "file_containing_symbol"):
            said = getattr(question, kind)
            name = said if kind == "file_by_filename" else self._of_symbol.get(said.removeprefix("."), "")
            if name in self._files:
                found = [file.SerializeToString() for file in self._with_imports(name)]
                answer.file_descriptor_response.file_descriptor_proto.extend(found)
            else:
                self._refuse(answer, Status.NOT_FOUND, f"{said[:200]!r} is not known")
        elif kind == "all_extension_numbers_of_type" and question.all_extension_numbers_of_type in self._of_symbol:
            of_type = {"base_type_name": question.all_extension_numbers_of_type}
            answer.MergeFrom(self.response(all_extension_numbers_response=of_type))
        elif kind is None:
            self._refuse(answer, Status.INVALID_ARGUMENT, "the request asks for nothing")
        else:
            self._refuse(answer, Status.NOT_FOUND, "there are no extensions")
        return answer

    def _with_imports(self, name: str) -> Iterator[descriptor_pb2.FileDescriptorProto]:
        """The file and those that it imports, each once."""
        waiting, seen = [name], {name}
        while waiting:
            file = self._files[waiting.pop(0)]
            yield file
            for each in file.dependency:
                if each in self._files and each not in seen:
                    seen.add(each)
                    waiting.append(each)

    def _refuse(self, answer: Any, status: Status, text: str) -> None:
        answer.MergeFrom(self.response(error_response={"error_code": int(status), "error_message": text}))


def file_and_imports(descriptor: FileDescriptor) -> Iterator[descriptor_pb2.FileDescriptorProto]:
    """The description of a generated module, behind those that it imports."""
    for each in descriptor.dependencies:
        yield from file_and_imports(each)
    made = descriptor_pb2.FileDescriptorProto()
    descriptor.CopyToProto(made)
    yield made


def _symbols(file: descriptor_pb2.FileDescriptorProto) -> Iterator[str]:
    for message in file.message_type:
        yield from _symbols_of(message, file.package)
    for enumeration in file.enum_type:
        yield f"{file.package}.{enumeration.name}"
    for service in file.service:
        yield f"{file.package}.{service.name}"
        for method in service.method:
            yield f"{file.package}.{service.name}.{method.name}"


def _symbols_of(message: descriptor_pb2.DescriptorProto, within: str) -> Iterator[str]:
    name = f"{within}.{message.name}"
    yield name
    for field in message.field:
        yield f"{name}.{field.name}"
    for enumeration in message.enum_type:
        yield f"{name}.{enumeration.name}"
    for nested in message.nested_type:
        yield from _symbols_of(nested, name)
