"""Messages of gRPC's own services, made from a description: a pool of their own keeps them apart from other libraries'
messages of the same names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FieldProto: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {"string": FieldProto.TYPE_STRING, "bytes": FieldProto.TYPE_BYTES, "int32": FieldProto.TYPE_INT32}
_REPEATED: Final = "repeated "
Fields = Mapping[str, tuple[int, str]]
"""Fields of a message: the number and the type of each, which may begin with `repeated`; other types are messages or
enumerations of the same file."""


def described_file(
    name: str,
    package: str,
    messages: Mapping[str, Fields],
    enumerations: Mapping[str, Mapping[str, int]],
    service: str,
    methods: Mapping[str, tuple[str, str, bool, bool]],
) -> descriptor_pb2.FileDescriptorProto:
    """Return the description of a file.  `methods`: request, answer, and if several of each are sent."""
    file = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3")
    for title, values in enumerations.items():
        made = file.enum_type.add(name=title)
        for value, number in values.items():
            made.value.add(name=value, number=number)
    for title, fields in messages.items():
        message = file.message_type.add(name=title)
        for field, (number, kind) in fields.items():
            _add_field(message, field, number, kind, package, enumerations)
    offered = file.service.add(name=service)
    for method, (question, answer, asks_often, answers_often) in methods.items():
        offered.method.add(
            name=method,
            input_type=f".{package}.{question}",
            output_type=f".{package}.{answer}",
            client_streaming=asks_often,
            server_streaming=answers_often,
        )
    return file


def _add_field(
    message: descriptor_pb2.DescriptorProto,
    name: str,
    number: int,
    kind: str,
    package: str,
    enumerations: Mapping[str, Mapping[str, int]],
) -> None:
    label = FieldProto.LABEL_REPEATED if kind.startswith(_REPEATED) else FieldProto.LABEL_OPTIONAL
    kind = kind.removeprefix(_REPEATED)
    field = message.field.add(name=name, number=number, label=label)
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
        return
    field.type = FieldProto.TYPE_ENUM if kind in enumerations else FieldProto.TYPE_MESSAGE
    field.type_name = f".{package}.{kind}"


def message_types(file: descriptor_pb2.FileDescriptorProto) -> dict[str, Any]:
    """Return the classes of a file's messages, by their names."""
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindFileByName(file.name)
    return {name: message_factory.GetMessageClass(each) for name, each in found.message_types_by_name.items()}
