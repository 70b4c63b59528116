"""What would break those who were built against an earlier release of the .proto files, each break by name.

The rules are those that buf has for the generated code of any language and for what goes over the wire.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import TypeVar

from google.protobuf import descriptor_pb2
from grpc_tools import protoc

File = descriptor_pb2.FileDescriptorProto
Message = descriptor_pb2.DescriptorProto
Field = descriptor_pb2.FieldDescriptorProto
Enum = descriptor_pb2.EnumDescriptorProto
Service = descriptor_pb2.ServiceDescriptorProto

T = TypeVar("T")
_PROMISED = ("name", "type", "label", "type_name", "proto3_optional")
_OF_A_FILE = ("package", "syntax")
_OPTIONS = ("go_package", "java_package", "java_multiple_files")


def described(folder: Path) -> bytes:
    """The FileDescriptorSet of all .proto files in a folder."""
    with tempfile.TemporaryDirectory() as name:
        made = Path(name) / "described"
        files = [path.name for path in sorted(folder.glob("*.proto"))]
        include = [f"-I{folder}", f"-I{resources.files('grpc_tools') / '_proto'}"]
        assert protoc.main(["protoc", *include, f"--descriptor_set_out={made}", *files]) == 0, folder
        return made.read_bytes()


def breaks(before: bytes, now: bytes) -> list[str]:
    """Two serialized FileDescriptorSets, of which only our own packages count."""
    old, new = _ours(before), _ours(now)
    return [
        *_missing("file", {file.name: file for file in old}, {file.name: file for file in new}, _of_file),
        *_missing("message", dict(_messages(old)), dict(_messages(new)), _of_message),
        *_missing("enum", dict(_enums(old)), dict(_enums(new)), _of_enum),
        *_missing("service", _services(old), _services(new), _of_service),
    ]


def _ours(raw: bytes) -> list[File]:
    files = descriptor_pb2.FileDescriptorSet.FromString(raw).file
    return [file for file in files if file.package.startswith("quoracy.")]


def _missing(
    what: str, old: dict[str, T], new: dict[str, T], compare: Callable[[str, T, T], Iterator[str]]
) -> Iterator[str]:
    for name, promised in old.items():
        if name not in new:
            yield f"{what} {name} is gone"
        else:
            yield from compare(name, promised, new[name])


def _other(what: str, names: tuple[str, ...], old: object, new: object) -> Iterator[str]:
    for name in names:
        was, is_ = getattr(old, name), getattr(new, name)
        if was != is_:
            yield f"{what}: {name} was {was!r}, is {is_!r}"


def _messages(files: list[File]) -> Iterator[tuple[str, Message]]:
    def within(prefix: str, messages: list[Message]) -> Iterator[tuple[str, Message]]:
        for message in messages:
            name = f"{prefix}.{message.name}"
            yield name, message
            yield from within(name, list(message.nested_type))

    for file in files:
        yield from within(file.package, list(file.message_type))


def _enums(files: list[File]) -> Iterator[tuple[str, Enum]]:
    for file in files:
        yield from ((f"{file.package}.{enum.name}", enum) for enum in file.enum_type)
    for name, message in _messages(files):
        yield from ((f"{name}.{enum.name}", enum) for enum in message.enum_type)


def _services(files: list[File]) -> dict[str, Service]:
    return {f"{file.package}.{service.name}": service for file in files for service in file.service}


def _of_file(name: str, old: File, new: File) -> Iterator[str]:
    yield from _other(f"file {name}", _OF_A_FILE, old, new)
    yield from _other(f"file {name}", _OPTIONS, old.options, new.options)


def _of_message(name: str, old: Message, new: Message) -> Iterator[str]:
    fields = {field.number: field for field in new.field}
    numbers = {field.name: field.number for field in new.field}
    for promised in old.field:
        field = fields.get(promised.number)
        what = f"field {name}.{promised.name} = {promised.number}"
        if promised.name in numbers and numbers[promised.name] != promised.number:
            yield f"{what} has the number {numbers[promised.name]} now"
        elif field is None:
            kept = any(range_.start <= promised.number < range_.end for range_ in new.reserved_range)
            if not kept or promised.name not in new.reserved_name:
                yield f"{what} is gone and not reserved"
        else:
            yield from _other(what, _PROMISED, promised, field)
            if promised.name == field.name:
                yield from _other(what, ("json_name",), promised, field)
            if _oneof(old, promised) != _oneof(new, field):
                yield f"{what} moved to another oneof"
    yield from _not_reserved(name, old, new, 0)


def _oneof(message: Message, field: Field) -> str:
    return message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else ""


def _not_reserved(name: str, old: Message | Enum, new: Message | Enum, past: int) -> Iterator[str]:
    """What was given up stays given up: somebody may still send it and mean what it was."""
    for number in sorted(_numbers(old, past) - _numbers(new, past)):
        yield f"{name}: the number {number} is not reserved any more"
    for word in sorted(set(old.reserved_name) - set(new.reserved_name)):
        yield f"{name}: the name {word} is not reserved any more"


def _numbers(kind: Message | Enum, past: int) -> set[int]:
    """That are reserved. The ranges of a message end before their end, those of an enum with it."""
    return {number for range_ in kind.reserved_range for number in range(range_.start, range_.end + past)}


def _of_enum(name: str, old: Enum, new: Enum) -> Iterator[str]:
    values = {value.name: value.number for value in new.value}
    for promised in old.value:
        if promised.name not in values:
            yield f"value {name}.{promised.name} is gone"
        elif values[promised.name] != promised.number:
            yield f"value {name}.{promised.name} was {promised.number}, is {values[promised.name]}"
    yield from _not_reserved(name, old, new, 1)


def _of_service(name: str, old: Service, new: Service) -> Iterator[str]:
    methods = {method.name: method for method in new.method}
    for promised in old.method:
        method = methods.get(promised.name)
        if method is None:
            yield f"rpc {name}.{promised.name} is gone"
            continue
        what = f"rpc {name}.{promised.name}"
        yield from _other(what, ("input_type", "output_type", "client_streaming", "server_streaming"), promised, method)
