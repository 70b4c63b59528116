"""The calls of members of witnessed runs, each alone: what ``WitnessedCalls`` can do, in protobuf's words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from google.protobuf.message import Message

from quoracy.core.codec import seconds
from quoracy.core.errors import Refusal, Refused
from quoracy.core.machine import MemberEvent, Signal
from quoracy.core.witnessed import events, views
from quoracy.core.witnessed.committee import draw
from quoracy.doors.grpc.checking import checked, within
from quoracy.doors.grpc.members import Caller
from quoracy.doors.grpc.people import PeoplesCalls
from quoracy.doors.service import Service
from quoracy.doors.witnessed import WitnessedCalls
from quoracy.wire.pb import witnessed_pb2 as pb

SERVICE: Final = pb.DESCRIPTOR.services_by_name["Witnessed"].full_name
PHASES: Final = {
    "WaitingForMembers": pb.WITNESSED_PHASE_WAITING_FOR_MEMBERS,
    "Warmup": pb.WITNESSED_PHASE_WARMUP,
    "RoundTrain": pb.WITNESSED_PHASE_ROUND_TRAIN,
    "RoundWitness": pb.WITNESSED_PHASE_ROUND_WITNESS,
    "Cooldown": pb.WITNESSED_PHASE_COOLDOWN,
    "Paused": pb.WITNESSED_PHASE_PAUSED,
    "Finished": pb.WITNESSED_PHASE_FINISHED,
}
STATES: Final = {
    "Pending": pb.MEMBER_STATE_PENDING,
    "Warming": pb.MEMBER_STATE_WARMING,
    "InStep": pb.MEMBER_STATE_IN_STEP,
    "Resyncing": pb.MEMBER_STATE_RESYNCING,
    "Left": pb.MEMBER_STATE_LEFT,
    "Lost": pb.MEMBER_STATE_LOST,
    "Removed": pb.MEMBER_STATE_REMOVED,
    "Done": pb.MEMBER_STATE_DONE,
}
SOURCES: Final = {
    "initial": pb.MODEL_SOURCE_INITIAL, "stored": pb.MODEL_SOURCE_STORED, "p2p": pb.MODEL_SOURCE_P2P,
}  # fmt: skip
STATUSES: Final = {"accepted": pb.JOIN_STATUS_ACCEPTED, "pending": pb.JOIN_STATUS_PENDING}

Work = Callable[[Caller, Any], Awaitable[Message]]
Said = Callable[[Any], Any]


# -- what members say --------------------------------------------------------------------------------------------------


def join_of(said: pb.JoinRequest) -> events.MemberJoined:
    member = said.member or f"m-{said.nonce.hex()[:16]}"
    proof = said.challenge + said.signature if said.key else b""
    labels = dict(sorted(said.labels.items()))
    return events.MemberJoined(member, said.supersedes, said.nonce, said.key, proof, tuple(said.addresses), labels)


def _of(kind: type[Signal] | type[MemberEvent]) -> Said:
    """Fields are called alike on both sides."""
    return lambda said: kind(**{name: getattr(said, name) for name in kind.__struct_fields__})


def _health_check(said: pb.HealthCheckRequest) -> events.HealthCheck:
    accused = (tuple(said.accused), tuple(said.results))
    return events.HealthCheck(said.member, said.incarnation, said.step, *accused, said.epoch)


def _stored(said: pb.CheckpointDoneRequest) -> events.CheckpointStored:
    made = (said.epoch, said.step, said.model, said.digest, said.size_bytes)
    return events.CheckpointStored(said.member, said.incarnation, *made)


SIGNALS: Final[dict[str, tuple[type[Message], Any, Said]]] = {
    "Loaded": (pb.LoadedRequest, pb.LoadedResponse, _of(events.Loaded)),
    "Attest": (pb.AttestRequest, pb.AttestResponse, _of(events.Attest)),
    "Holds": (pb.HoldsRequest, pb.HoldsResponse, _of(events.Holds)),
    "ModelHash": (pb.ModelHashRequest, pb.ModelHashResponse, _of(events.ModelHash)),
    "HealthCheck": (pb.HealthCheckRequest, pb.HealthCheckResponse, _health_check),
}
COMMANDS: Final[dict[str, tuple[type[Message], Any, Said]]] = {
    "Commit": (pb.CommitRequest, pb.CommitResponse, _of(events.ResultCommitted)),
    "CheckpointDone": (pb.CheckpointDoneRequest, pb.CheckpointDoneResponse, _stored),
    "ShowTwoFaced": (pb.ShowTwoFacedRequest, pb.ShowTwoFacedResponse, _of(events.TwoFacedShown)),
    "Leave": (pb.MemberLeaveRequest, pb.MemberLeaveResponse, _of(events.MemberLeft)),
}


class WitnessCalls:
    def __init__(self, service: Service, calls: WitnessedCalls, people: PeoplesCalls) -> None:
        self._service = service
        self._calls = calls
        self._people = people

    def works(self) -> dict[str, tuple[type[Message], Work]]:
        """Every call of the service by its name: what it reads, and what answers it."""
        works: dict[str, tuple[type[Message], Work]] = {
            "Join": (pb.JoinRequest, self.join),
            "Heartbeat": (pb.MemberHeartbeatRequest, self.heartbeat),
            "PauseRun": (pb.PauseRunRequest, self.pause),
            "ResumeRun": (pb.ResumeRunRequest, self.resume),
            "ReadmitMember": (pb.ReadmitMemberRequest, self.readmit),
        }
        for name, (request, answer, said) in SIGNALS.items():
            works[name] = (request, self._signal(answer, said))
        for name, (request, answer, said) in COMMANDS.items():
            works[name] = (request, self._command(answer, said))
        return works

    async def join(self, caller: Caller, said: pb.JoinRequest) -> pb.JoinResponse:
        if said.key and not said.HasField("supersedes"):
            why = "supersedes is not set, and a join signs it"
            raise Refused(Refusal("malformed", why, "set it: 0 for a new id, else the incarnation it follows"))
        entered = await self._calls.enter(caller.identity, said.run, checked(join_of(said)))
        response = pb.JoinResponse(
            status=STATUSES.get(entered.status), epoch=entered.epoch, run=entered.run, member=entered.member,
            incarnation=entered.incarnation, token=entered.token, entry=entered.entry,
            heartbeat_interval_s=entered.heartbeat_interval_s, heartbeat_timeout_s=entered.heartbeat_timeout_s,
            objects_at=pb.ObjectsAt(**await self._service.where_weights(said.run)),
        )  # fmt: skip
        response.config.update(entered.config)
        return response

    async def heartbeat(self, caller: Caller, said: pb.MemberHeartbeatRequest) -> pb.MemberHeartbeatResponse:
        metrics = dict(sorted(said.metrics.items()))
        beat = events.Beat(said.member, said.incarnation, said.seq, said.progress, metrics)
        wait_s = within(caller, said.wait_ms / 1000)
        token = caller.token(said.token)
        seen = await self._calls.beat(caller.identity, token, said.run, checked(beat), dict(said.known), wait_s)
        where = seen.beat
        shown = {topic: TOPICS[topic](said.run, said.member, view) for topic, view in seen.views.items()}
        return pb.MemberHeartbeatResponse(
            seq=where.seq, phase=PHASES.get(where.phase), epoch=where.epoch, round=where.round,
            standing=shown.get(views.STANDING), round_shown=shown.get(views.ROUND),
            results=shown.get(views.RESULTS), sealed=shown.get(views.SEALED), peers=shown.get(views.PEERS),
            known=seen.known, token=seen.token,
        )  # fmt: skip

    def _signal(self, answer: Any, signal: Said) -> Work:
        async def say(caller: Caller, said: Any) -> Message:
            token = caller.token(said.token)
            taken = await self._calls.say(caller.identity, token, said.run, checked(signal(said)))
            answered: Message = answer(phase=PHASES.get(taken.phase), epoch=taken.epoch, round=taken.round)
            return answered

        return say

    def _command(self, answer: Any, event: Said) -> Work:
        async def command(caller: Caller, said: Any) -> Message:
            token = caller.token(said.token)
            accepted = await self._calls.command(caller.identity, token, said.run, said.seq, checked(event(said)))
            answered: Message = answer(entry=accepted.entry)
            return answered

        return command

    # -- operators --------------------------------------------------------------------------------------------------

    async def pause(self, caller: Caller, said: pb.PauseRunRequest) -> pb.PauseRunResponse:
        done = await self._people.ask(caller, "pause", said.run, reason=said.reason, request=said.request)
        return pb.PauseRunResponse(entry=done["entry"])

    async def resume(self, caller: Caller, said: pb.ResumeRunRequest) -> pb.ResumeRunResponse:
        done = await self._people.ask(caller, "resume", said.run, request=said.request)
        return pb.ResumeRunResponse(entry=done["entry"])

    async def readmit(self, caller: Caller, said: pb.ReadmitMemberRequest) -> pb.ReadmitMemberResponse:
        done = await self._people.ask(caller, "readmit", said.run, member=said.member, request=said.request)
        return pb.ReadmitMemberResponse(entry=done["entry"])


# -- what members are shown --------------------------------------------------------------------------------------------


def standing(_run: str, _member: str, shown: views.Standing) -> pb.MemberStanding:
    return pb.MemberStanding(
        incarnation=shown.incarnation, state=STATES.get(shown.state), phase=PHASES.get(shown.phase),
        epoch=shown.epoch, strikes=shown.strikes, reason=shown.reason, store=shown.store,
        load=None if shown.load is None else pointer(shown.load),
    )  # fmt: skip


def pointer(shown: views.Pointer) -> pb.ModelPointer:
    return pb.ModelPointer(
        source=SOURCES.get(shown.source), step=shown.step, model=shown.model, digest=shown.digest,
        size_bytes=shown.size_bytes, holders=shown.holders,
    )  # fmt: skip


def round_shown(run: str, member: str, shown: views.RoundShown) -> pb.RoundShown:
    """With what follows from the draws for this member: code in another language need not repeat them."""
    committee = draw(run, shown)
    mine = [
        pb.RoundAssignment(assignment=one.index, attempt=one.attempt, batches=ranges(one.batches))
        for one in committee.of(member)
    ]
    return pb.RoundShown(
        phase=PHASES.get(shown.phase), epoch=shown.epoch, round=shown.round, step=shown.step, seed=shown.seed,
        roster=shown.roster, speeds=shown.speeds, batches=ranges(shown.batches), witness_nodes=shown.witness_nodes,
        moved=[pb.MovedAssignment(assignment=index, attempt=attempt, member=who)
               for index, attempt, who in shown.moved],
        left_s=seconds(shown.left_us), reason=shown.reason, mine=mine, witness=member in committee.witnesses,
    )  # fmt: skip


def ranges(batches: tuple[tuple[int, int], ...]) -> list[pb.BatchRange]:
    return [pb.BatchRange(first=first, end=end) for first, end in batches]


def results(_run: str, _member: str, shown: views.ResultsShown) -> pb.ResultsShown:
    made = [result(one, shown.base) for one in shown.results]
    return pb.ResultsShown(epoch=shown.epoch, round=shown.round, results=made, salt=shown.salt)


def result(shown: views.Result, base: bytes) -> pb.RoundResult:
    """``base``: of those that say none of their own."""
    return pb.RoundResult(
        assignment=shown.assignment, attempt=shown.attempt, member=shown.member, digest=shown.digest,
        size_bytes=shown.size_bytes, base=shown.base or base,
    )  # fmt: skip


def sealed(_run: str, _member: str, shown: views.SealedList) -> pb.SealedShown:
    return pb.SealedShown(rounds=map(sealed_round, shown.rounds))


def sealed_round(shown: views.SealedShown) -> pb.SealedRound:
    holders = shown.holders or ((),) * len(shown.results)
    made = [
        pb.SealedResult(result=result(one, shown.model), holders=who, voided=at in shown.voided, position=position)
        for at, (one, who, position) in enumerate(zip(shown.results, holders, shown.positions, strict=True))
    ]
    return pb.SealedRound(step=shown.step, epoch=shown.epoch, round=shown.round, model=shown.model, results=made)


def peers(_run: str, _member: str, shown: views.PeersShown) -> pb.PeersShown:
    return pb.PeersShown(
        epoch=shown.epoch,
        peers=[
            pb.MemberPeer(member=one.member, incarnation=one.incarnation, key=one.key, addresses=one.addresses)
            for one in shown.peers
        ],
    )


TOPICS: Final[dict[str, Callable[[str, str, Any], Any]]] = {
    views.STANDING: standing,
    views.ROUND: round_shown,
    views.RESULTS: results,
    views.SEALED: sealed,
    views.PEERS: peers,
}
