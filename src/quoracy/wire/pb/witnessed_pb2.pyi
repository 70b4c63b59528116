from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JoinStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOIN_STATUS_UNSPECIFIED: _ClassVar[JoinStatus]
    JOIN_STATUS_ACCEPTED: _ClassVar[JoinStatus]
    JOIN_STATUS_PENDING: _ClassVar[JoinStatus]

class WitnessedPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WITNESSED_PHASE_UNSPECIFIED: _ClassVar[WitnessedPhase]
    WITNESSED_PHASE_WAITING_FOR_MEMBERS: _ClassVar[WitnessedPhase]
    WITNESSED_PHASE_WARMUP: _ClassVar[WitnessedPhase]
    WITNESSED_PHASE_ROUND_TRAIN: _ClassVar[WitnessedPhase]
    WITNESSED_PHASE_ROUND_WITNESS: _ClassVar[WitnessedPhase]
    WITNESSED_PHASE_COOLDOWN: _ClassVar[WitnessedPhase]
    WITNESSED_PHASE_PAUSED: _ClassVar[WitnessedPhase]
    WITNESSED_PHASE_FINISHED: _ClassVar[WitnessedPhase]

class MemberState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEMBER_STATE_UNSPECIFIED: _ClassVar[MemberState]
    MEMBER_STATE_PENDING: _ClassVar[MemberState]
    MEMBER_STATE_WARMING: _ClassVar[MemberState]
    MEMBER_STATE_IN_STEP: _ClassVar[MemberState]
    MEMBER_STATE_RESYNCING: _ClassVar[MemberState]
    MEMBER_STATE_LEFT: _ClassVar[MemberState]
    MEMBER_STATE_LOST: _ClassVar[MemberState]
    MEMBER_STATE_REMOVED: _ClassVar[MemberState]
    MEMBER_STATE_DONE: _ClassVar[MemberState]

class ModelSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODEL_SOURCE_UNSPECIFIED: _ClassVar[ModelSource]
    MODEL_SOURCE_INITIAL: _ClassVar[ModelSource]
    MODEL_SOURCE_STORED: _ClassVar[ModelSource]
    MODEL_SOURCE_P2P: _ClassVar[ModelSource]
JOIN_STATUS_UNSPECIFIED: JoinStatus
JOIN_STATUS_ACCEPTED: JoinStatus
JOIN_STATUS_PENDING: JoinStatus
WITNESSED_PHASE_UNSPECIFIED: WitnessedPhase
WITNESSED_PHASE_WAITING_FOR_MEMBERS: WitnessedPhase
WITNESSED_PHASE_WARMUP: WitnessedPhase
WITNESSED_PHASE_ROUND_TRAIN: WitnessedPhase
WITNESSED_PHASE_ROUND_WITNESS: WitnessedPhase
WITNESSED_PHASE_COOLDOWN: WitnessedPhase
WITNESSED_PHASE_PAUSED: WitnessedPhase
WITNESSED_PHASE_FINISHED: WitnessedPhase
MEMBER_STATE_UNSPECIFIED: MemberState
MEMBER_STATE_PENDING: MemberState
MEMBER_STATE_WARMING: MemberState
MEMBER_STATE_IN_STEP: MemberState
MEMBER_STATE_RESYNCING: MemberState
MEMBER_STATE_LEFT: MemberState
MEMBER_STATE_LOST: MemberState
MEMBER_STATE_REMOVED: MemberState
MEMBER_STATE_DONE: MemberState
MODEL_SOURCE_UNSPECIFIED: ModelSource
MODEL_SOURCE_INITIAL: ModelSource
MODEL_SOURCE_STORED: ModelSource
MODEL_SOURCE_P2P: ModelSource

class JoinRequest(_message.Message):
    __slots__ = ("run", "member", "supersedes", "nonce", "key", "challenge", "signature", "addresses", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RUN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDES_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    run: str
    member: str
    supersedes: int
    nonce: bytes
    key: bytes
    challenge: bytes
    signature: bytes
    addresses: _containers.RepeatedScalarFieldContainer[str]
    labels: _containers.ScalarMap[str, str]
    def __init__(self, run: _Optional[str] = ..., member: _Optional[str] = ..., supersedes: _Optional[int] = ..., nonce: _Optional[bytes] = ..., key: _Optional[bytes] = ..., challenge: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., addresses: _Optional[_Iterable[str]] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class JoinResponse(_message.Message):
    __slots__ = ("status", "epoch", "run", "member", "incarnation", "token", "heartbeat_interval_s", "heartbeat_timeout_s", "entry", "config", "objects_at")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_AT_FIELD_NUMBER: _ClassVar[int]
    status: JoinStatus
    epoch: int
    run: str
    member: str
    incarnation: int
    token: str
    heartbeat_interval_s: float
    heartbeat_timeout_s: float
    entry: int
    config: _struct_pb2.Struct
    objects_at: ObjectsAt
    def __init__(self, status: _Optional[_Union[JoinStatus, str]] = ..., epoch: _Optional[int] = ..., run: _Optional[str] = ..., member: _Optional[str] = ..., incarnation: _Optional[int] = ..., token: _Optional[str] = ..., heartbeat_interval_s: _Optional[float] = ..., heartbeat_timeout_s: _Optional[float] = ..., entry: _Optional[int] = ..., config: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., objects_at: _Optional[_Union[ObjectsAt, _Mapping]] = ...) -> None: ...

class ObjectsAt(_message.Message):
    __slots__ = ("store", "prefix", "http")
    STORE_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    HTTP_FIELD_NUMBER: _ClassVar[int]
    store: str
    prefix: str
    http: str
    def __init__(self, store: _Optional[str] = ..., prefix: _Optional[str] = ..., http: _Optional[str] = ...) -> None: ...

class MemberLeaveRequest(_message.Message):
    __slots__ = ("run", "member", "incarnation", "seq", "reason", "token")
    RUN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    run: str
    member: str
    incarnation: int
    seq: int
    reason: str
    token: str
    def __init__(self, run: _Optional[str] = ..., member: _Optional[str] = ..., incarnation: _Optional[int] = ..., seq: _Optional[int] = ..., reason: _Optional[str] = ..., token: _Optional[str] = ...) -> None: ...

class MemberLeaveResponse(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: int
    def __init__(self, entry: _Optional[int] = ...) -> None: ...

class MemberHeartbeatRequest(_message.Message):
    __slots__ = ("run", "member", "incarnation", "seq", "progress", "metrics", "wait_ms", "known", "token")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class KnownEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RUN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    run: str
    member: str
    incarnation: int
    seq: int
    progress: int
    metrics: _containers.ScalarMap[str, float]
    wait_ms: int
    known: _containers.ScalarMap[str, str]
    token: str
    def __init__(self, run: _Optional[str] = ..., member: _Optional[str] = ..., incarnation: _Optional[int] = ..., seq: _Optional[int] = ..., progress: _Optional[int] = ..., metrics: _Optional[_Mapping[str, float]] = ..., wait_ms: _Optional[int] = ..., known: _Optional[_Mapping[str, str]] = ..., token: _Optional[str] = ...) -> None: ...

class MemberHeartbeatResponse(_message.Message):
    __slots__ = ("seq", "phase", "epoch", "round", "standing", "round_shown", "results", "sealed", "peers", "known", "token")
    class KnownEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SEQ_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    ROUND_SHOWN_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    seq: int
    phase: WitnessedPhase
    epoch: int
    round: int
    standing: MemberStanding
    round_shown: RoundShown
    results: ResultsShown
    sealed: SealedShown
    peers: PeersShown
    known: _containers.ScalarMap[str, str]
    token: str
    def __init__(self, seq: _Optional[int] = ..., phase: _Optional[_Union[WitnessedPhase, str]] = ..., epoch: _Optional[int] = ..., round: _Optional[int] = ..., standing: _Optional[_Union[MemberStanding, _Mapping]] = ..., round_shown: _Optional[_Union[RoundShown, _Mapping]] = ..., results: _Optional[_Union[ResultsShown, _Mapping]] = ..., sealed: _Optional[_Union[SealedShown, _Mapping]] = ..., peers: _Optional[_Union[PeersShown, _Mapping]] = ..., known: _Optional[_Mapping[str, str]] = ..., token: _Optional[str] = ...) -> None: ...

class MemberStanding(_message.Message):
    __slots__ = ("incarnation", "state", "phase", "epoch", "strikes", "reason", "load", "store")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STRIKES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    incarnation: int
    state: MemberState
    phase: WitnessedPhase
    epoch: int
    strikes: int
    reason: str
    load: ModelPointer
    store: bool
    def __init__(self, incarnation: _Optional[int] = ..., state: _Optional[_Union[MemberState, str]] = ..., phase: _Optional[_Union[WitnessedPhase, str]] = ..., epoch: _Optional[int] = ..., strikes: _Optional[int] = ..., reason: _Optional[str] = ..., load: _Optional[_Union[ModelPointer, _Mapping]] = ..., store: _Optional[bool] = ...) -> None: ...

class ModelPointer(_message.Message):
    __slots__ = ("source", "step", "model", "digest", "size_bytes", "holders")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    source: ModelSource
    step: int
    model: bytes
    digest: bytes
    size_bytes: int
    holders: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, source: _Optional[_Union[ModelSource, str]] = ..., step: _Optional[int] = ..., model: _Optional[bytes] = ..., digest: _Optional[bytes] = ..., size_bytes: _Optional[int] = ..., holders: _Optional[_Iterable[str]] = ...) -> None: ...

class RoundShown(_message.Message):
    __slots__ = ("phase", "epoch", "round", "step", "seed", "roster", "speeds", "batches", "witness_nodes", "moved", "left_s", "reason", "mine", "witness")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    ROSTER_FIELD_NUMBER: _ClassVar[int]
    SPEEDS_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    WITNESS_NODES_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    LEFT_S_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MINE_FIELD_NUMBER: _ClassVar[int]
    WITNESS_FIELD_NUMBER: _ClassVar[int]
    phase: WitnessedPhase
    epoch: int
    round: int
    step: int
    seed: bytes
    roster: _containers.RepeatedScalarFieldContainer[str]
    speeds: _containers.RepeatedScalarFieldContainer[int]
    batches: _containers.RepeatedCompositeFieldContainer[BatchRange]
    witness_nodes: int
    moved: _containers.RepeatedCompositeFieldContainer[MovedAssignment]
    left_s: float
    reason: str
    mine: _containers.RepeatedCompositeFieldContainer[RoundAssignment]
    witness: bool
    def __init__(self, phase: _Optional[_Union[WitnessedPhase, str]] = ..., epoch: _Optional[int] = ..., round: _Optional[int] = ..., step: _Optional[int] = ..., seed: _Optional[bytes] = ..., roster: _Optional[_Iterable[str]] = ..., speeds: _Optional[_Iterable[int]] = ..., batches: _Optional[_Iterable[_Union[BatchRange, _Mapping]]] = ..., witness_nodes: _Optional[int] = ..., moved: _Optional[_Iterable[_Union[MovedAssignment, _Mapping]]] = ..., left_s: _Optional[float] = ..., reason: _Optional[str] = ..., mine: _Optional[_Iterable[_Union[RoundAssignment, _Mapping]]] = ..., witness: _Optional[bool] = ...) -> None: ...

class BatchRange(_message.Message):
    __slots__ = ("first", "end")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    first: int
    end: int
    def __init__(self, first: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class MovedAssignment(_message.Message):
    __slots__ = ("assignment", "attempt", "member")
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    assignment: int
    attempt: int
    member: str
    def __init__(self, assignment: _Optional[int] = ..., attempt: _Optional[int] = ..., member: _Optional[str] = ...) -> None: ...

class RoundAssignment(_message.Message):
    __slots__ = ("assignment", "attempt", "batches")
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    assignment: int
    attempt: int
    batches: _containers.RepeatedCompositeFieldContainer[BatchRange]
    def __init__(self, assignment: _Optional[int] = ..., attempt: _Optional[int] = ..., batches: _Optional[_Iterable[_Union[BatchRange, _Mapping]]] = ...) -> None: ...

class RoundResult(_message.Message):
    __slots__ = ("assignment", "attempt", "member", "digest", "size_bytes", "base")
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    assignment: int
    attempt: int
    member: str
    digest: bytes
    size_bytes: int
    base: bytes
    def __init__(self, assignment: _Optional[int] = ..., attempt: _Optional[int] = ..., member: _Optional[str] = ..., digest: _Optional[bytes] = ..., size_bytes: _Optional[int] = ..., base: _Optional[bytes] = ...) -> None: ...

class ResultsShown(_message.Message):
    __slots__ = ("epoch", "round", "results", "salt")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    SALT_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    round: int
    results: _containers.RepeatedCompositeFieldContainer[RoundResult]
    salt: bytes
    def __init__(self, epoch: _Optional[int] = ..., round: _Optional[int] = ..., results: _Optional[_Iterable[_Union[RoundResult, _Mapping]]] = ..., salt: _Optional[bytes] = ...) -> None: ...

class SealedShown(_message.Message):
    __slots__ = ("rounds",)
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    rounds: _containers.RepeatedCompositeFieldContainer[SealedRound]
    def __init__(self, rounds: _Optional[_Iterable[_Union[SealedRound, _Mapping]]] = ...) -> None: ...

class SealedRound(_message.Message):
    __slots__ = ("step", "epoch", "round", "model", "results")
    STEP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    step: int
    epoch: int
    round: int
    model: bytes
    results: _containers.RepeatedCompositeFieldContainer[SealedResult]
    def __init__(self, step: _Optional[int] = ..., epoch: _Optional[int] = ..., round: _Optional[int] = ..., model: _Optional[bytes] = ..., results: _Optional[_Iterable[_Union[SealedResult, _Mapping]]] = ...) -> None: ...

class SealedResult(_message.Message):
    __slots__ = ("result", "holders", "voided", "position")
    RESULT_FIELD_NUMBER: _ClassVar[int]
    HOLDERS_FIELD_NUMBER: _ClassVar[int]
    VOIDED_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    result: RoundResult
    holders: _containers.RepeatedScalarFieldContainer[str]
    voided: bool
    position: int
    def __init__(self, result: _Optional[_Union[RoundResult, _Mapping]] = ..., holders: _Optional[_Iterable[str]] = ..., voided: _Optional[bool] = ..., position: _Optional[int] = ...) -> None: ...

class PeersShown(_message.Message):
    __slots__ = ("epoch", "peers")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    peers: _containers.RepeatedCompositeFieldContainer[MemberPeer]
    def __init__(self, epoch: _Optional[int] = ..., peers: _Optional[_Iterable[_Union[MemberPeer, _Mapping]]] = ...) -> None: ...

class MemberPeer(_message.Message):
    __slots__ = ("member", "incarnation", "key", "addresses")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_FIELD_NUMBER: _ClassVar[int]
    member: str
    incarnation: int
    key: bytes
    addresses: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, member: _Optional[str] = ..., incarnation: _Optional[int] = ..., key: _Optional[bytes] = ..., addresses: _Optional[_Iterable[str]] = ...) -> None: ...

class LoadedRequest(_message.Message):
    __slots__ = ("run", "member", "incarnation", "epoch", "step", "model", "token")
    RUN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    run: str
    member: str
    incarnation: int
    epoch: int
    step: int
    model: bytes
    token: str
    def __init__(self, run: _Optional[str] = ..., member: _Optional[str] = ..., incarnation: _Optional[int] = ..., epoch: _Optional[int] = ..., step: _Optional[int] = ..., model: _Optional[bytes] = ..., token: _Optional[str] = ...) -> None: ...

class LoadedResponse(_message.Message):
    __slots__ = ("phase", "epoch", "round")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    phase: WitnessedPhase
    epoch: int
    round: int
    def __init__(self, phase: _Optional[_Union[WitnessedPhase, str]] = ..., epoch: _Optional[int] = ..., round: _Optional[int] = ...) -> None: ...

class CommitRequest(_message.Message):
    __slots__ = ("run", "member", "incarnation", "seq", "epoch", "round", "assignment", "attempt", "digest", "size_bytes", "base", "samples", "loss", "signature", "token")
    RUN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    run: str
    member: str
    incarnation: int
    seq: int
    epoch: int
    round: int
    assignment: int
    attempt: int
    digest: bytes
    size_bytes: int
    base: bytes
    samples: int
    loss: float
    signature: bytes
    token: str
    def __init__(self, run: _Optional[str] = ..., member: _Optional[str] = ..., incarnation: _Optional[int] = ..., seq: _Optional[int] = ..., epoch: _Optional[int] = ..., round: _Optional[int] = ..., assignment: _Optional[int] = ..., attempt: _Optional[int] = ..., digest: _Optional[bytes] = ..., size_bytes: _Optional[int] = ..., base: _Optional[bytes] = ..., samples: _Optional[int] = ..., loss: _Optional[float] = ..., signature: _Optional[bytes] = ..., token: _Optional[str] = ...) -> None: ...

class CommitResponse(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: int
    def __init__(self, entry: _Optional[int] = ...) -> None: ...

class AttestRequest(_message.Message):
    __slots__ = ("run", "member", "incarnation", "epoch", "round", "known", "held", "token")
    RUN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    run: str
    member: str
    incarnation: int
    epoch: int
    round: int
    known: int
    held: bytes
    token: str
    def __init__(self, run: _Optional[str] = ..., member: _Optional[str] = ..., incarnation: _Optional[int] = ..., epoch: _Optional[int] = ..., round: _Optional[int] = ..., known: _Optional[int] = ..., held: _Optional[bytes] = ..., token: _Optional[str] = ...) -> None: ...

class AttestResponse(_message.Message):
    __slots__ = ("phase", "epoch", "round")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    phase: WitnessedPhase
    epoch: int
    round: int
    def __init__(self, phase: _Optional[_Union[WitnessedPhase, str]] = ..., epoch: _Optional[int] = ..., round: _Optional[int] = ...) -> None: ...

class HoldsRequest(_message.Message):
    __slots__ = ("run", "member", "incarnation", "epoch", "round", "known", "held", "step", "missing", "token")
    RUN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    run: str
    member: str
    incarnation: int
    epoch: int
    round: int
    known: int
    held: bytes
    step: int
    missing: bytes
    token: str
    def __init__(self, run: _Optional[str] = ..., member: _Optional[str] = ..., incarnation: _Optional[int] = ..., epoch: _Optional[int] = ..., round: _Optional[int] = ..., known: _Optional[int] = ..., held: _Optional[bytes] = ..., step: _Optional[int] = ..., missing: _Optional[bytes] = ..., token: _Optional[str] = ...) -> None: ...

class HoldsResponse(_message.Message):
    __slots__ = ("phase", "epoch", "round")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    phase: WitnessedPhase
    epoch: int
    round: int
    def __init__(self, phase: _Optional[_Union[WitnessedPhase, str]] = ..., epoch: _Optional[int] = ..., round: _Optional[int] = ...) -> None: ...

class ModelHashRequest(_message.Message):
    __slots__ = ("run", "member", "incarnation", "step", "model", "token", "epoch", "voided")
    RUN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VOIDED_FIELD_NUMBER: _ClassVar[int]
    run: str
    member: str
    incarnation: int
    step: int
    model: bytes
    token: str
    epoch: int
    voided: int
    def __init__(self, run: _Optional[str] = ..., member: _Optional[str] = ..., incarnation: _Optional[int] = ..., step: _Optional[int] = ..., model: _Optional[bytes] = ..., token: _Optional[str] = ..., epoch: _Optional[int] = ..., voided: _Optional[int] = ...) -> None: ...

class ModelHashResponse(_message.Message):
    __slots__ = ("phase", "epoch", "round")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    phase: WitnessedPhase
    epoch: int
    round: int
    def __init__(self, phase: _Optional[_Union[WitnessedPhase, str]] = ..., epoch: _Optional[int] = ..., round: _Optional[int] = ...) -> None: ...

class HealthCheckRequest(_message.Message):
    __slots__ = ("run", "member", "incarnation", "step", "accused", "token", "epoch", "results")
    RUN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    ACCUSED_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    run: str
    member: str
    incarnation: int
    step: int
    accused: _containers.RepeatedScalarFieldContainer[str]
    token: str
    epoch: int
    results: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, run: _Optional[str] = ..., member: _Optional[str] = ..., incarnation: _Optional[int] = ..., step: _Optional[int] = ..., accused: _Optional[_Iterable[str]] = ..., token: _Optional[str] = ..., epoch: _Optional[int] = ..., results: _Optional[_Iterable[int]] = ...) -> None: ...

class HealthCheckResponse(_message.Message):
    __slots__ = ("phase", "epoch", "round")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    phase: WitnessedPhase
    epoch: int
    round: int
    def __init__(self, phase: _Optional[_Union[WitnessedPhase, str]] = ..., epoch: _Optional[int] = ..., round: _Optional[int] = ...) -> None: ...

class CheckpointDoneRequest(_message.Message):
    __slots__ = ("run", "member", "incarnation", "seq", "epoch", "step", "model", "digest", "size_bytes", "token")
    RUN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    run: str
    member: str
    incarnation: int
    seq: int
    epoch: int
    step: int
    model: bytes
    digest: bytes
    size_bytes: int
    token: str
    def __init__(self, run: _Optional[str] = ..., member: _Optional[str] = ..., incarnation: _Optional[int] = ..., seq: _Optional[int] = ..., epoch: _Optional[int] = ..., step: _Optional[int] = ..., model: _Optional[bytes] = ..., digest: _Optional[bytes] = ..., size_bytes: _Optional[int] = ..., token: _Optional[str] = ...) -> None: ...

class CheckpointDoneResponse(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: int
    def __init__(self, entry: _Optional[int] = ...) -> None: ...

class ShowTwoFacedRequest(_message.Message):
    __slots__ = ("run", "member", "incarnation", "seq", "accused", "epoch", "round", "assignment", "attempt", "digest", "base", "signature", "token")
    RUN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ACCUSED_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    ASSIGNMENT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    run: str
    member: str
    incarnation: int
    seq: int
    accused: str
    epoch: int
    round: int
    assignment: int
    attempt: int
    digest: bytes
    base: bytes
    signature: bytes
    token: str
    def __init__(self, run: _Optional[str] = ..., member: _Optional[str] = ..., incarnation: _Optional[int] = ..., seq: _Optional[int] = ..., accused: _Optional[str] = ..., epoch: _Optional[int] = ..., round: _Optional[int] = ..., assignment: _Optional[int] = ..., attempt: _Optional[int] = ..., digest: _Optional[bytes] = ..., base: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., token: _Optional[str] = ...) -> None: ...

class ShowTwoFacedResponse(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: int
    def __init__(self, entry: _Optional[int] = ...) -> None: ...

class PauseRunRequest(_message.Message):
    __slots__ = ("run", "reason", "request")
    RUN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    run: str
    reason: str
    request: str
    def __init__(self, run: _Optional[str] = ..., reason: _Optional[str] = ..., request: _Optional[str] = ...) -> None: ...

class PauseRunResponse(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: int
    def __init__(self, entry: _Optional[int] = ...) -> None: ...

class ResumeRunRequest(_message.Message):
    __slots__ = ("run", "request")
    RUN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    run: str
    request: str
    def __init__(self, run: _Optional[str] = ..., request: _Optional[str] = ...) -> None: ...

class ResumeRunResponse(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: int
    def __init__(self, entry: _Optional[int] = ...) -> None: ...

class ReadmitMemberRequest(_message.Message):
    __slots__ = ("run", "member", "request")
    RUN_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    run: str
    member: str
    request: str
    def __init__(self, run: _Optional[str] = ..., member: _Optional[str] = ..., request: _Optional[str] = ...) -> None: ...

class ReadmitMemberResponse(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: int
    def __init__(self, entry: _Optional[int] = ...) -> None: ...
