"""Calls any method of any gRPC server that has reflection, with JSON: what grpcurl does, in Python.

python examples/grpc_call.py 127.0.0.1:50051
python examples/grpc_call.py 127.0.0.1:50051 quoracy.v1.Coordinator/GetStatus
python examples/grpc_call.py 127.0.0.1:50051 quoracy.v1.Coordinator/GetRun '{"run": "demo"}'

QUORACY_TOKEN is sent along if it is set.
"""

import json
import os
import sys

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc


def services(channel):
    asked = reflection_pb2.ServerReflectionRequest(list_services="")
    return [service.name for service in ask(channel, asked).list_services_response.service]


def find(channel, service):
    """The descriptor of a service, with everything it needs, as the server itself tells it."""
    asked = reflection_pb2.ServerReflectionRequest(file_containing_symbol=service)
    pool = descriptor_pool.DescriptorPool()
    files = [descriptor_pb2.FileDescriptorProto.FromString(raw) for raw in told(channel, asked)]
    known = {file.name: file for file in files}
    while missing := {name for file in known.values() for name in file.dependency} - known.keys():
        for name in missing:
            asked = reflection_pb2.ServerReflectionRequest(file_by_filename=name)
            known |= {
                file.name: file for file in map(descriptor_pb2.FileDescriptorProto.FromString, told(channel, asked))
            }
    added = set()
    while added != known.keys():
        for file in known.values():
            if file.name not in added and added.issuperset(file.dependency):
                pool.Add(file)
                added.add(file.name)
    return pool.FindServiceByName(service)


def call(channel, method, request="{}", token=""):
    service, _, name = method.partition("/")
    wanted = find(channel, service).FindMethodByName(name)
    asked = json_format.Parse(request, message_factory.GetMessageClass(wanted.input_type)())
    answer = message_factory.GetMessageClass(wanted.output_type)
    metadata = (("authorization", f"Bearer {token}"),) if token else ()
    said = channel.unary_unary(f"/{method}", type(asked).SerializeToString, answer.FromString)
    return json_format.MessageToDict(said(asked, timeout=30.0, metadata=metadata), preserving_proto_field_name=True)


def told(channel, asked):
    return ask(channel, asked).file_descriptor_response.file_descriptor_proto


def ask(channel, asked):
    return next(reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([asked])))


def main(arguments):
    with grpc.insecure_channel(arguments[0]) as channel:
        if len(arguments) == 1:
            print("\n".join(services(channel)))
            return
        print(json.dumps(call(channel, *arguments[1:3], token=os.environ.get("QUORACY_TOKEN", "")), indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
