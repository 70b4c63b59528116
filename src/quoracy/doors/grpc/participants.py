"""The calls of participants, each alone: what ``FederatedCalls`` can do, in protobuf's words."""

from __future__ import annotations

from typing import Any, Final

from quoracy.core.errors import Refusal, Refused
from quoracy.core.federated.events import Beat, ParticipantJoined, ParticipantLeft, UpdateOffered
from quoracy.doors.federated import VERDICT_S, FederatedCalls, Known, Later
from quoracy.doors.grpc.checking import checked, within
from quoracy.doors.grpc.members import MAX_WAIT_S, Caller
from quoracy.doors.offers import TAG, fitted
from quoracy.doors.service import Service
from quoracy.wire.pb import federated_pb2 as pb

SERVICE: Final = pb.DESCRIPTOR.services_by_name["Federated"].full_name
_PHASES: Final = {
    "STANDBY": pb.ROUND_PHASE_STANDBY,
    "ROUND": pb.ROUND_PHASE_ROUND,
    "FINISHED": pb.ROUND_PHASE_FINISHED,
}
_NAMES: Final = {number: name for name, number in _PHASES.items()}


class ParticipantCalls:
    def __init__(self, service: Service, calls: FederatedCalls) -> None:
        self._service = service
        self._calls = calls

    async def rendezvous(self, caller: Caller, said: pb.RendezvousRequest) -> pb.RendezvousResponse:
        newest = not said.HasField("supersedes")
        if newest and said.key:
            why = "supersedes is not set, and a join with a key signs it"
            raise Refused(Refusal("malformed", why, "set it: 0 for a new id, else the incarnation it follows"))
        member = said.participant or f"p-{said.nonce.hex()[:16]}"
        proof = said.challenge + said.signature if said.key else b""
        labels = dict(sorted(said.labels.items()))
        join = ParticipantJoined(member, said.supersedes, said.nonce, said.key, proof, labels, said.initial)
        entered = await self._calls.rendezvous(caller.identity, said.run, checked(join), newest=newest)
        if isinstance(entered, Later):
            return pb.RendezvousResponse(
                reply=pb.RENDEZVOUS_REPLY_LATER, retry_s=entered.retry_s, why=entered.why, run=said.run
            )
        return pb.RendezvousResponse(
            reply=pb.RENDEZVOUS_REPLY_ACCEPT, run=entered.run, participant=entered.member,
            incarnation=entered.incarnation, token=entered.token, seat=entered.seat, entry=entered.entry,
            heartbeat_interval_s=entered.heartbeat_interval_s, heartbeat_timeout_s=entered.heartbeat_timeout_s,
        )  # fmt: skip

    async def heartbeat(self, caller: Caller, said: pb.ParticipantHeartbeatRequest) -> pb.ParticipantHeartbeatResponse:
        metrics = dict(sorted(said.metrics.items()))
        beat = Beat(said.participant, said.incarnation, said.seq, said.progress, said.epoch, metrics)
        known = Known(_NAMES.get(said.phase, ""), said.round)
        wait_s = within(caller, said.wait_ms / 1000)
        token = caller.token(said.token)
        seen, renewed = await self._calls.beat(caller.identity, token, said.run, checked(beat), known, wait_s)
        return pb.ParticipantHeartbeatResponse(
            seq=seen.seq,
            phase=_PHASES.get(seen.phase),
            round=seen.round,
            run_phase=seen.run_phase,
            reason=seen.reason,
            token=renewed,
        )

    async def start(self, caller: Caller, said: pb.StartTrainingRoundRequest) -> pb.StartTrainingRoundResponse:
        token = caller.token(said.token)
        assigned = await self._calls.start(caller.identity, token, said.run, said.participant, said.incarnation)
        where = await self._service.where_weights(said.run)
        response = pb.StartTrainingRoundResponse(
            round=assigned.round, ticket=assigned.ticket, epochs=assigned.epochs, epoch_base=assigned.epoch_base,
            rounds=assigned.rounds, weights=assigned.weights, size_bytes=assigned.size_bytes,
            weights_at=pb.WeightsAt(**where),
        )  # fmt: skip
        response.hyper.update(assigned.hyper)
        return response

    async def end(self, caller: Caller, said: pb.EndTrainingRoundRequest) -> pb.EndTrainingRoundResponse:
        if not 0.0 <= said.timeout_s <= MAX_WAIT_S:
            raise Refused(Refusal("malformed", f"timeout_s = {said.timeout_s:g}", f"0 to {MAX_WAIT_S:g} seconds"))
        metrics = {name: _metric(metric) for name, metric in sorted(said.metrics.items())}
        history = {name: list(reals.values) for name, reals in sorted(said.history.items())}
        _, *fields = fitted([
            TAG, said.participant, said.incarnation, said.round, said.ticket, said.number_samples, said.digest,
            said.size_bytes, metrics, history, said.metrics_digest, list(said.warnings),
        ])  # fmt: skip
        timeout_s = within(caller, said.timeout_s or VERDICT_S)
        token = caller.token(said.token)
        verdict = await self._calls.end(caller.identity, token, said.run, checked(UpdateOffered(*fields)), timeout_s)
        return pb.EndTrainingRoundResponse(
            round=verdict.round, ticket=verdict.ticket, digest=verdict.digest,
            warnings=self._calls.warnings(said.run, said.participant, verdict.ticket),
        )  # fmt: skip

    async def leave(self, caller: Caller, said: pb.LeaveRequest) -> pb.LeaveResponse:
        left = ParticipantLeft(said.participant, said.incarnation, said.reason)
        token = caller.token(said.token)
        accepted = await self._calls.leave(caller.identity, token, said.run, checked(left))
        return pb.LeaveResponse(entry=accepted.entry)


def _metric(metric: pb.Metric) -> Any:
    match metric.WhichOneof("value"):
        case "list":
            return list(metric.list.values)
        case "array":
            return {"shape": list(metric.array.shape), "values": list(metric.array.values)}
        case "scalar":
            return metric.scalar
    return "nothing"
