"""The calls of people and tools: each is one question of the service."""

from __future__ import annotations

from typing import Any

from quoracy.core.errors import Refusal, Refused
from quoracy.doors.grpc import translate
from quoracy.doors.grpc.members import Caller
from quoracy.doors.service import Service
from quoracy.wire.pb import coordinator_pb2 as pb


class PeoplesCalls:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def status(self, caller: Caller, _said: pb.GetStatusRequest) -> pb.GetStatusResponse:
        shown = await self.ask(caller, "status", "")
        return pb.GetStatusResponse(
            version=shown["version"], host=shown["host"], address=shown["address"], serving=shown["serving"],
            draining=shown["draining"], uptime_s=shown["uptime_s"], runs=shown["runs"],
        )  # fmt: skip

    async def runs(self, caller: Caller, _said: pb.ListRunsRequest) -> pb.ListRunsResponse:
        return pb.ListRunsResponse(runs=map(translate.shown_run, await self.ask(caller, "runs", "")))

    async def run(self, caller: Caller, said: pb.GetRunRequest) -> pb.GetRunResponse:
        return pb.GetRunResponse(run=translate.shown_run(await self.ask(caller, "show", said.run)))

    async def create(self, caller: Caller, said: pb.CreateRunRequest) -> pb.CreateRunResponse:
        kind = {"kind": said.kind} if said.kind else {}
        config = translate.plain(said.config)
        shown = await self.ask(
            caller, "create", said.run, **kind, config=config, label=said.label, request=said.request
        )
        return pb.CreateRunResponse(run=translate.shown_run(shown))

    async def stop(self, caller: Caller, said: pb.StopRunRequest) -> pb.StopRunResponse:
        done = await self.ask(caller, "stop", said.run, reason=said.reason, request=said.request)
        return pb.StopRunResponse(entry=done["entry"])

    async def drop_barrier(self, caller: Caller, said: pb.DropBarrierRequest) -> pb.DropBarrierResponse:
        done = await self.ask(
            caller, "drop-barrier", said.run, barrier=said.barrier, reason=said.reason, request=said.request
        )
        return pb.DropBarrierResponse(entry=done["entry"])

    async def roll_back(self, caller: Caller, said: pb.RollBackRunRequest) -> pb.RollBackRunResponse:
        done = await self.ask(caller, "roll-back", said.run, reason=said.reason, request=said.request)
        return pb.RollBackRunResponse(entry=done["entry"])

    async def order(self, caller: Caller, said: pb.OrderWorkersRequest) -> pb.OrderWorkersResponse:
        command = translate.COMMAND_NAMES.get(said.command)
        if command is None:
            known = ", ".join(translate.COMMAND_NAMES.values())
            raise Refused(Refusal("malformed", f"command = {said.command} orders nothing", f"send one of: {known}"))
        arguments = translate.plain(said.arguments)
        done = await self.ask(
            caller, "order", said.run, command=command, member=said.worker, arguments=arguments, request=said.request
        )
        return pb.OrderWorkersResponse(entry=done["entry"])

    async def ask(self, caller: Caller, what: str, run: str, **arguments: Any) -> Any:
        """Raises Refused."""
        replied = await self._service.ask(caller.identity, 0, what, run, arguments)
        if replied.refusal is not None:
            raise Refused(replied.refusal)
        return replied.value
