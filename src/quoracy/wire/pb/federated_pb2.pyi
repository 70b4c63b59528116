from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RendezvousReply(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RENDEZVOUS_REPLY_UNSPECIFIED: _ClassVar[RendezvousReply]
    RENDEZVOUS_REPLY_ACCEPT: _ClassVar[RendezvousReply]
    RENDEZVOUS_REPLY_LATER: _ClassVar[RendezvousReply]

class RoundPhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROUND_PHASE_UNSPECIFIED: _ClassVar[RoundPhase]
    ROUND_PHASE_STANDBY: _ClassVar[RoundPhase]
    ROUND_PHASE_ROUND: _ClassVar[RoundPhase]
    ROUND_PHASE_FINISHED: _ClassVar[RoundPhase]
RENDEZVOUS_REPLY_UNSPECIFIED: RendezvousReply
RENDEZVOUS_REPLY_ACCEPT: RendezvousReply
RENDEZVOUS_REPLY_LATER: RendezvousReply
ROUND_PHASE_UNSPECIFIED: RoundPhase
ROUND_PHASE_STANDBY: RoundPhase
ROUND_PHASE_ROUND: RoundPhase
ROUND_PHASE_FINISHED: RoundPhase

class RendezvousRequest(_message.Message):
    __slots__ = ("run", "participant", "supersedes", "nonce", "key", "challenge", "signature", "labels", "initial")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RUN_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANT_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDES_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    INITIAL_FIELD_NUMBER: _ClassVar[int]
    run: str
    participant: str
    supersedes: int
    nonce: bytes
    key: bytes
    challenge: bytes
    signature: bytes
    labels: _containers.ScalarMap[str, str]
    initial: bool
    def __init__(self, run: _Optional[str] = ..., participant: _Optional[str] = ..., supersedes: _Optional[int] = ..., nonce: _Optional[bytes] = ..., key: _Optional[bytes] = ..., challenge: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., labels: _Optional[_Mapping[str, str]] = ..., initial: _Optional[bool] = ...) -> None: ...

class RendezvousResponse(_message.Message):
    __slots__ = ("reply", "retry_s", "why", "run", "participant", "incarnation", "token", "seat", "heartbeat_interval_s", "heartbeat_timeout_s", "entry")
    REPLY_FIELD_NUMBER: _ClassVar[int]
    RETRY_S_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANT_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SEAT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    reply: RendezvousReply
    retry_s: float
    why: str
    run: str
    participant: str
    incarnation: int
    token: str
    seat: int
    heartbeat_interval_s: float
    heartbeat_timeout_s: float
    entry: int
    def __init__(self, reply: _Optional[_Union[RendezvousReply, str]] = ..., retry_s: _Optional[float] = ..., why: _Optional[str] = ..., run: _Optional[str] = ..., participant: _Optional[str] = ..., incarnation: _Optional[int] = ..., token: _Optional[str] = ..., seat: _Optional[int] = ..., heartbeat_interval_s: _Optional[float] = ..., heartbeat_timeout_s: _Optional[float] = ..., entry: _Optional[int] = ...) -> None: ...

class ParticipantHeartbeatRequest(_message.Message):
    __slots__ = ("run", "participant", "incarnation", "seq", "progress", "epoch", "metrics", "wait_ms", "phase", "round", "token")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    RUN_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANT_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    run: str
    participant: str
    incarnation: int
    seq: int
    progress: int
    epoch: int
    metrics: _containers.ScalarMap[str, float]
    wait_ms: int
    phase: RoundPhase
    round: int
    token: str
    def __init__(self, run: _Optional[str] = ..., participant: _Optional[str] = ..., incarnation: _Optional[int] = ..., seq: _Optional[int] = ..., progress: _Optional[int] = ..., epoch: _Optional[int] = ..., metrics: _Optional[_Mapping[str, float]] = ..., wait_ms: _Optional[int] = ..., phase: _Optional[_Union[RoundPhase, str]] = ..., round: _Optional[int] = ..., token: _Optional[str] = ...) -> None: ...

class ParticipantHeartbeatResponse(_message.Message):
    __slots__ = ("seq", "phase", "round", "run_phase", "reason", "token")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    RUN_PHASE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    seq: int
    phase: RoundPhase
    round: int
    run_phase: str
    reason: str
    token: str
    def __init__(self, seq: _Optional[int] = ..., phase: _Optional[_Union[RoundPhase, str]] = ..., round: _Optional[int] = ..., run_phase: _Optional[str] = ..., reason: _Optional[str] = ..., token: _Optional[str] = ...) -> None: ...

class StartTrainingRoundRequest(_message.Message):
    __slots__ = ("run", "participant", "incarnation", "token")
    RUN_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANT_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    run: str
    participant: str
    incarnation: int
    token: str
    def __init__(self, run: _Optional[str] = ..., participant: _Optional[str] = ..., incarnation: _Optional[int] = ..., token: _Optional[str] = ...) -> None: ...

class StartTrainingRoundResponse(_message.Message):
    __slots__ = ("round", "ticket", "epochs", "epoch_base", "rounds", "weights", "size_bytes", "weights_at", "hyper")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_BASE_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_AT_FIELD_NUMBER: _ClassVar[int]
    HYPER_FIELD_NUMBER: _ClassVar[int]
    round: int
    ticket: int
    epochs: int
    epoch_base: int
    rounds: int
    weights: str
    size_bytes: int
    weights_at: WeightsAt
    hyper: _struct_pb2.Struct
    def __init__(self, round: _Optional[int] = ..., ticket: _Optional[int] = ..., epochs: _Optional[int] = ..., epoch_base: _Optional[int] = ..., rounds: _Optional[int] = ..., weights: _Optional[str] = ..., size_bytes: _Optional[int] = ..., weights_at: _Optional[_Union[WeightsAt, _Mapping]] = ..., hyper: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class WeightsAt(_message.Message):
    __slots__ = ("store", "prefix", "http")
    STORE_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    HTTP_FIELD_NUMBER: _ClassVar[int]
    store: str
    prefix: str
    http: str
    def __init__(self, store: _Optional[str] = ..., prefix: _Optional[str] = ..., http: _Optional[str] = ...) -> None: ...

class Metric(_message.Message):
    __slots__ = ("scalar", "list", "array")
    SCALAR_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    ARRAY_FIELD_NUMBER: _ClassVar[int]
    scalar: float
    list: Reals
    array: Array
    def __init__(self, scalar: _Optional[float] = ..., list: _Optional[_Union[Reals, _Mapping]] = ..., array: _Optional[_Union[Array, _Mapping]] = ...) -> None: ...

class Array(_message.Message):
    __slots__ = ("shape", "values")
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    shape: _containers.RepeatedScalarFieldContainer[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, shape: _Optional[_Iterable[int]] = ..., values: _Optional[_Iterable[float]] = ...) -> None: ...

class Reals(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, values: _Optional[_Iterable[float]] = ...) -> None: ...

class EndTrainingRoundRequest(_message.Message):
    __slots__ = ("run", "participant", "incarnation", "round", "ticket", "number_samples", "metrics", "history", "digest", "size_bytes", "token", "timeout_s", "metrics_digest", "warnings")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Metric
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Metric, _Mapping]] = ...) -> None: ...
    class HistoryEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Reals
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Reals, _Mapping]] = ...) -> None: ...
    RUN_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANT_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    NUMBER_SAMPLES_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    METRICS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    run: str
    participant: str
    incarnation: int
    round: int
    ticket: int
    number_samples: int
    metrics: _containers.MessageMap[str, Metric]
    history: _containers.MessageMap[str, Reals]
    digest: str
    size_bytes: int
    token: str
    timeout_s: float
    metrics_digest: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, run: _Optional[str] = ..., participant: _Optional[str] = ..., incarnation: _Optional[int] = ..., round: _Optional[int] = ..., ticket: _Optional[int] = ..., number_samples: _Optional[int] = ..., metrics: _Optional[_Mapping[str, Metric]] = ..., history: _Optional[_Mapping[str, Reals]] = ..., digest: _Optional[str] = ..., size_bytes: _Optional[int] = ..., token: _Optional[str] = ..., timeout_s: _Optional[float] = ..., metrics_digest: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class EndTrainingRoundResponse(_message.Message):
    __slots__ = ("round", "ticket", "digest", "warnings")
    ROUND_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    round: int
    ticket: int
    digest: str
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, round: _Optional[int] = ..., ticket: _Optional[int] = ..., digest: _Optional[str] = ..., warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class LeaveRequest(_message.Message):
    __slots__ = ("run", "participant", "incarnation", "reason", "token")
    RUN_FIELD_NUMBER: _ClassVar[int]
    PARTICIPANT_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    run: str
    participant: str
    incarnation: int
    reason: str
    token: str
    def __init__(self, run: _Optional[str] = ..., participant: _Optional[str] = ..., incarnation: _Optional[int] = ..., reason: _Optional[str] = ..., token: _Optional[str] = ...) -> None: ...

class LeaveResponse(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: int
    def __init__(self, entry: _Optional[int] = ...) -> None: ...
