"""What would break those who were built against an earlier release of the .proto files, each break by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from google.protobuf import descriptor_pb2

Message = descriptor_pb2.DescriptorProto
Field = descriptor_pb2.FieldDescriptorProto
Enum = descriptor_pb2.EnumDescriptorProto

T = TypeVar("T")
_PROMISED = ("name", "type", "label", "type_name", "proto3_optional")


def breaks(before: bytes, now: bytes) -> list[str]:
    """Two serialized FileDescriptorSets, of which only our own package counts."""
    old, new = _ours(before), _ours(now)
    return [
        *_missing("message", dict(_messages(old)), dict(_messages(new)), _of_message),
        *_missing("enum", dict(_enums(old)), dict(_enums(new)), _of_enum),
        *_missing("service", _services(old), _services(new), _of_service),
    ]


def _missing(
    what: str, old: dict[str, T], new: dict[str, T], compare: Callable[[str, T, T], Iterator[str]]
) -> Iterator[str]:
    for name, promised in old.items():
        if name not in new:
            yield f"{what} {name} is gone"
        else:
            yield from compare(name, promised, new[name])


def _ours(raw: bytes) -> list[descriptor_pb2.FileDescriptorProto]:
    files = descriptor_pb2.FileDescriptorSet.FromString(raw).file
    return [file for file in files if file.package.startswith("quorate.")]


def _messages(files: list[descriptor_pb2.FileDescriptorProto]) -> Iterator[tuple[str, Message]]:
    def within(prefix: str, messages: list[Message]) -> Iterator[tuple[str, Message]]:
        for message in messages:
            name = f"{prefix}.{message.name}"
            yield name, message
            yield from within(name, list(message.nested_type))

    for file in files:
        yield from within(file.package, list(file.message_type))


def _enums(files: list[descriptor_pb2.FileDescriptorProto]) -> Iterator[tuple[str, Enum]]:
    for file in files:
        yield from ((f"{file.package}.{enum.name}", enum) for enum in file.enum_type)
    for name, message in _messages(files):
        yield from ((f"{name}.{enum.name}", enum) for enum in message.enum_type)


def _services(files: list[descriptor_pb2.FileDescriptorProto]) -> dict[str, descriptor_pb2.ServiceDescriptorProto]:
    return {f"{file.package}.{service.name}": service for file in files for service in file.service}


def _of_message(name: str, old: Message, new: Message) -> Iterator[str]:
    fields = {field.number: field for field in new.field}
    for promised in old.field:
        field = fields.get(promised.number)
        if field is None:
            kept = any(range_.start <= promised.number < range_.end for range_ in new.reserved_range)
            if not kept or promised.name not in new.reserved_name:
                yield f"field {name}.{promised.name} = {promised.number} is gone and not reserved"
            continue
        for what in _PROMISED:
            was, is_ = getattr(promised, what), getattr(field, what)
            if was != is_:
                yield f"field {name}.{promised.name} = {promised.number}: {what} was {was!r}, is {is_!r}"
        if _oneof(old, promised) != _oneof(new, field):
            yield f"field {name}.{promised.name} = {promised.number} moved to another oneof"


def _oneof(message: Message, field: Field) -> str:
    return message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else ""


def _of_enum(name: str, old: Enum, new: Enum) -> Iterator[str]:
    values = {value.name: value.number for value in new.value}
    for promised in old.value:
        if promised.name not in values:
            yield f"value {name}.{promised.name} is gone"
        elif values[promised.name] != promised.number:
            yield f"value {name}.{promised.name} was {promised.number}, is {values[promised.name]}"


def _of_service(
    name: str, old: descriptor_pb2.ServiceDescriptorProto, new: descriptor_pb2.ServiceDescriptorProto
) -> Iterator[str]:
    methods = {method.name: method for method in new.method}
    for promised in old.method:
        method = methods.get(promised.name)
        if method is None:
            yield f"rpc {name}.{promised.name} is gone"
            continue
        for what in ("input_type", "output_type", "client_streaming", "server_streaming"):
            was, is_ = getattr(promised, what), getattr(method, what)
            if was != is_:
                yield f"rpc {name}.{promised.name}: {what} was {was!r}, is {is_!r}"
