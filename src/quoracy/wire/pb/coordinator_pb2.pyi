from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OrderCommand(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ORDER_COMMAND_UNSPECIFIED: _ClassVar[OrderCommand]
    ORDER_COMMAND_STOP: _ClassVar[OrderCommand]
    ORDER_COMMAND_PAUSE: _ClassVar[OrderCommand]
    ORDER_COMMAND_RESUME: _ClassVar[OrderCommand]
    ORDER_COMMAND_RECONFIGURE: _ClassVar[OrderCommand]
    ORDER_COMMAND_CHECKPOINT: _ClassVar[OrderCommand]

class ReportedState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REPORTED_STATE_UNSPECIFIED: _ClassVar[ReportedState]
    REPORTED_STATE_READY: _ClassVar[ReportedState]
    REPORTED_STATE_LOADING: _ClassVar[ReportedState]
    REPORTED_STATE_TRAINING: _ClassVar[ReportedState]
    REPORTED_STATE_CHECKPOINTING: _ClassVar[ReportedState]
    REPORTED_STATE_IDLE: _ClassVar[ReportedState]

class WorkerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WORKER_STATE_UNSPECIFIED: _ClassVar[WorkerState]
    WORKER_STATE_INITIALIZING: _ClassVar[WorkerState]
    WORKER_STATE_IDLE: _ClassVar[WorkerState]
    WORKER_STATE_LOADING_DATA: _ClassVar[WorkerState]
    WORKER_STATE_TRAINING: _ClassVar[WorkerState]
    WORKER_STATE_CHECKPOINTING: _ClassVar[WorkerState]
    WORKER_STATE_RECOVERING: _ClassVar[WorkerState]
    WORKER_STATE_FAILED: _ClassVar[WorkerState]
    WORKER_STATE_LEFT: _ClassVar[WorkerState]

class Retry(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RETRY_UNSPECIFIED: _ClassVar[Retry]
    RETRY_LATER: _ClassVar[Retry]
    RETRY_CHANGED: _ClassVar[Retry]
    RETRY_OVER: _ClassVar[Retry]
ORDER_COMMAND_UNSPECIFIED: OrderCommand
ORDER_COMMAND_STOP: OrderCommand
ORDER_COMMAND_PAUSE: OrderCommand
ORDER_COMMAND_RESUME: OrderCommand
ORDER_COMMAND_RECONFIGURE: OrderCommand
ORDER_COMMAND_CHECKPOINT: OrderCommand
REPORTED_STATE_UNSPECIFIED: ReportedState
REPORTED_STATE_READY: ReportedState
REPORTED_STATE_LOADING: ReportedState
REPORTED_STATE_TRAINING: ReportedState
REPORTED_STATE_CHECKPOINTING: ReportedState
REPORTED_STATE_IDLE: ReportedState
WORKER_STATE_UNSPECIFIED: WorkerState
WORKER_STATE_INITIALIZING: WorkerState
WORKER_STATE_IDLE: WorkerState
WORKER_STATE_LOADING_DATA: WorkerState
WORKER_STATE_TRAINING: WorkerState
WORKER_STATE_CHECKPOINTING: WorkerState
WORKER_STATE_RECOVERING: WorkerState
WORKER_STATE_FAILED: WorkerState
WORKER_STATE_LEFT: WorkerState
RETRY_UNSPECIFIED: Retry
RETRY_LATER: Retry
RETRY_CHANGED: Retry
RETRY_OVER: Retry

class RegisterWorkerRequest(_message.Message):
    __slots__ = ("run", "worker", "supersedes", "nonce", "key", "challenge", "signature", "address", "gpus", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RUN_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDES_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    run: str
    worker: str
    supersedes: int
    nonce: bytes
    key: bytes
    challenge: bytes
    signature: bytes
    address: str
    gpus: int
    labels: _containers.ScalarMap[str, str]
    def __init__(self, run: _Optional[str] = ..., worker: _Optional[str] = ..., supersedes: _Optional[int] = ..., nonce: _Optional[bytes] = ..., key: _Optional[bytes] = ..., challenge: _Optional[bytes] = ..., signature: _Optional[bytes] = ..., address: _Optional[str] = ..., gpus: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class RegisterWorkerResponse(_message.Message):
    __slots__ = ("run", "worker", "incarnation", "rank", "seat", "fence", "heartbeat_interval_s", "heartbeat_timeout_s", "token", "entry", "barriers")
    class BarriersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: BarrierMark
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[BarrierMark, _Mapping]] = ...) -> None: ...
    RUN_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    SEAT_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    BARRIERS_FIELD_NUMBER: _ClassVar[int]
    run: str
    worker: str
    incarnation: int
    rank: int
    seat: int
    fence: int
    heartbeat_interval_s: float
    heartbeat_timeout_s: float
    token: str
    entry: int
    barriers: _containers.MessageMap[str, BarrierMark]
    def __init__(self, run: _Optional[str] = ..., worker: _Optional[str] = ..., incarnation: _Optional[int] = ..., rank: _Optional[int] = ..., seat: _Optional[int] = ..., fence: _Optional[int] = ..., heartbeat_interval_s: _Optional[float] = ..., heartbeat_timeout_s: _Optional[float] = ..., token: _Optional[str] = ..., entry: _Optional[int] = ..., barriers: _Optional[_Mapping[str, BarrierMark]] = ...) -> None: ...

class BarrierMark(_message.Message):
    __slots__ = ("generation", "step")
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    generation: int
    step: int
    def __init__(self, generation: _Optional[int] = ..., step: _Optional[int] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("run", "worker", "incarnation", "seq", "step", "epoch", "progress", "cpu", "gpu", "memory", "task", "order", "token", "metrics")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    RUN_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    run: str
    worker: str
    incarnation: int
    seq: int
    step: int
    epoch: int
    progress: int
    cpu: float
    gpu: float
    memory: float
    task: str
    order: int
    token: str
    metrics: _containers.ScalarMap[str, float]
    def __init__(self, run: _Optional[str] = ..., worker: _Optional[str] = ..., incarnation: _Optional[int] = ..., seq: _Optional[int] = ..., step: _Optional[int] = ..., epoch: _Optional[int] = ..., progress: _Optional[int] = ..., cpu: _Optional[float] = ..., gpu: _Optional[float] = ..., memory: _Optional[float] = ..., task: _Optional[str] = ..., order: _Optional[int] = ..., token: _Optional[str] = ..., metrics: _Optional[_Mapping[str, float]] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("seq", "order", "token")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    seq: int
    order: Order
    token: str
    def __init__(self, seq: _Optional[int] = ..., order: _Optional[_Union[Order, _Mapping]] = ..., token: _Optional[str] = ...) -> None: ...

class Order(_message.Message):
    __slots__ = ("number", "command", "arguments", "fence")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    number: int
    command: OrderCommand
    arguments: _struct_pb2.Struct
    fence: int
    def __init__(self, number: _Optional[int] = ..., command: _Optional[_Union[OrderCommand, str]] = ..., arguments: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., fence: _Optional[int] = ...) -> None: ...

class ReportStateRequest(_message.Message):
    __slots__ = ("run", "worker", "incarnation", "seq", "state", "fence", "token")
    RUN_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    run: str
    worker: str
    incarnation: int
    seq: int
    state: ReportedState
    fence: int
    token: str
    def __init__(self, run: _Optional[str] = ..., worker: _Optional[str] = ..., incarnation: _Optional[int] = ..., seq: _Optional[int] = ..., state: _Optional[_Union[ReportedState, str]] = ..., fence: _Optional[int] = ..., token: _Optional[str] = ...) -> None: ...

class ReportStateResponse(_message.Message):
    __slots__ = ("entry", "state", "fence", "barriers")
    class BarriersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: BarrierMark
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[BarrierMark, _Mapping]] = ...) -> None: ...
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    BARRIERS_FIELD_NUMBER: _ClassVar[int]
    entry: int
    state: WorkerState
    fence: int
    barriers: _containers.MessageMap[str, BarrierMark]
    def __init__(self, entry: _Optional[int] = ..., state: _Optional[_Union[WorkerState, str]] = ..., fence: _Optional[int] = ..., barriers: _Optional[_Mapping[str, BarrierMark]] = ...) -> None: ...

class WaitAtBarrierRequest(_message.Message):
    __slots__ = ("run", "worker", "incarnation", "barrier", "step", "after", "fence", "timeout_s", "token")
    RUN_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    BARRIER_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    run: str
    worker: str
    incarnation: int
    barrier: str
    step: int
    after: int
    fence: int
    timeout_s: float
    token: str
    def __init__(self, run: _Optional[str] = ..., worker: _Optional[str] = ..., incarnation: _Optional[int] = ..., barrier: _Optional[str] = ..., step: _Optional[int] = ..., after: _Optional[int] = ..., fence: _Optional[int] = ..., timeout_s: _Optional[float] = ..., token: _Optional[str] = ...) -> None: ...

class WaitAtBarrierResponse(_message.Message):
    __slots__ = ("barrier", "generation", "step", "released", "order", "of", "reason", "fence")
    BARRIER_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    OF_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    barrier: str
    generation: int
    step: int
    released: bool
    order: int
    of: int
    reason: str
    fence: int
    def __init__(self, barrier: _Optional[str] = ..., generation: _Optional[int] = ..., step: _Optional[int] = ..., released: _Optional[bool] = ..., order: _Optional[int] = ..., of: _Optional[int] = ..., reason: _Optional[str] = ..., fence: _Optional[int] = ...) -> None: ...

class DeregisterRequest(_message.Message):
    __slots__ = ("run", "worker", "incarnation", "seq", "reason", "token")
    RUN_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    run: str
    worker: str
    incarnation: int
    seq: int
    reason: str
    token: str
    def __init__(self, run: _Optional[str] = ..., worker: _Optional[str] = ..., incarnation: _Optional[int] = ..., seq: _Optional[int] = ..., reason: _Optional[str] = ..., token: _Optional[str] = ...) -> None: ...

class DeregisterResponse(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: int
    def __init__(self, entry: _Optional[int] = ...) -> None: ...

class GetChallengeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetChallengeResponse(_message.Message):
    __slots__ = ("challenge",)
    CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    challenge: bytes
    def __init__(self, challenge: _Optional[bytes] = ...) -> None: ...

class ClientMessages(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[ClientMessage]
    def __init__(self, messages: _Optional[_Iterable[_Union[ClientMessage, _Mapping]]] = ...) -> None: ...

class ClientMessage(_message.Message):
    __slots__ = ("hello", "register", "report", "heartbeat", "arrive", "leave")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    REPORT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    ARRIVE_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    register: RegisterWorkerRequest
    report: ReportStateRequest
    heartbeat: HeartbeatRequest
    arrive: WaitAtBarrierRequest
    leave: DeregisterRequest
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., register: _Optional[_Union[RegisterWorkerRequest, _Mapping]] = ..., report: _Optional[_Union[ReportStateRequest, _Mapping]] = ..., heartbeat: _Optional[_Union[HeartbeatRequest, _Mapping]] = ..., arrive: _Optional[_Union[WaitAtBarrierRequest, _Mapping]] = ..., leave: _Optional[_Union[DeregisterRequest, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("run", "worker", "incarnation", "token")
    RUN_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    run: str
    worker: str
    incarnation: int
    token: str
    def __init__(self, run: _Optional[str] = ..., worker: _Optional[str] = ..., incarnation: _Optional[int] = ..., token: _Optional[str] = ...) -> None: ...

class ServerMessages(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[ServerMessage]
    def __init__(self, messages: _Optional[_Iterable[_Union[ServerMessage, _Mapping]]] = ...) -> None: ...

class ServerMessage(_message.Message):
    __slots__ = ("worker", "incarnation", "welcome", "answered", "granted", "declined", "standing", "passage", "order", "heartbeat", "moved", "goodbye")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    DECLINED_FIELD_NUMBER: _ClassVar[int]
    STANDING_FIELD_NUMBER: _ClassVar[int]
    PASSAGE_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    worker: str
    incarnation: int
    welcome: Welcome
    answered: Answered
    granted: Granted
    declined: Declined
    standing: Standing
    passage: WaitAtBarrierResponse
    order: Order
    heartbeat: HeartbeatResponse
    moved: Moved
    goodbye: Goodbye
    def __init__(self, worker: _Optional[str] = ..., incarnation: _Optional[int] = ..., welcome: _Optional[_Union[Welcome, _Mapping]] = ..., answered: _Optional[_Union[Answered, _Mapping]] = ..., granted: _Optional[_Union[Granted, _Mapping]] = ..., declined: _Optional[_Union[Declined, _Mapping]] = ..., standing: _Optional[_Union[Standing, _Mapping]] = ..., passage: _Optional[_Union[WaitAtBarrierResponse, _Mapping]] = ..., order: _Optional[_Union[Order, _Mapping]] = ..., heartbeat: _Optional[_Union[HeartbeatResponse, _Mapping]] = ..., moved: _Optional[_Union[Moved, _Mapping]] = ..., goodbye: _Optional[_Union[Goodbye, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("incarnation", "term", "entry", "challenge")
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    incarnation: int
    term: int
    entry: int
    challenge: bytes
    def __init__(self, incarnation: _Optional[int] = ..., term: _Optional[int] = ..., entry: _Optional[int] = ..., challenge: _Optional[bytes] = ...) -> None: ...

class Answered(_message.Message):
    __slots__ = ("seq", "accepted", "refused")
    SEQ_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    seq: int
    accepted: Accepted
    refused: ErrorDetail
    def __init__(self, seq: _Optional[int] = ..., accepted: _Optional[_Union[Accepted, _Mapping]] = ..., refused: _Optional[_Union[ErrorDetail, _Mapping]] = ...) -> None: ...

class Accepted(_message.Message):
    __slots__ = ("entry", "registered")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    entry: int
    registered: RegisterWorkerResponse
    def __init__(self, entry: _Optional[int] = ..., registered: _Optional[_Union[RegisterWorkerResponse, _Mapping]] = ...) -> None: ...

class Granted(_message.Message):
    __slots__ = ("run", "token")
    RUN_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    run: str
    token: str
    def __init__(self, run: _Optional[str] = ..., token: _Optional[str] = ...) -> None: ...

class Declined(_message.Message):
    __slots__ = ("topic", "error")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    topic: str
    error: ErrorDetail
    def __init__(self, topic: _Optional[str] = ..., error: _Optional[_Union[ErrorDetail, _Mapping]] = ...) -> None: ...

class Standing(_message.Message):
    __slots__ = ("incarnation", "state", "rank", "reason", "fence", "closed", "barriers")
    class BarriersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: BarrierMark
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[BarrierMark, _Mapping]] = ...) -> None: ...
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    BARRIERS_FIELD_NUMBER: _ClassVar[int]
    incarnation: int
    state: WorkerState
    rank: int
    reason: str
    fence: int
    closed: bool
    barriers: _containers.MessageMap[str, BarrierMark]
    def __init__(self, incarnation: _Optional[int] = ..., state: _Optional[_Union[WorkerState, str]] = ..., rank: _Optional[int] = ..., reason: _Optional[str] = ..., fence: _Optional[int] = ..., closed: _Optional[bool] = ..., barriers: _Optional[_Mapping[str, BarrierMark]] = ...) -> None: ...

class Moved(_message.Message):
    __slots__ = ("run", "term", "address")
    RUN_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    run: str
    term: int
    address: str
    def __init__(self, run: _Optional[str] = ..., term: _Optional[int] = ..., address: _Optional[str] = ...) -> None: ...

class Goodbye(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: ErrorDetail
    def __init__(self, error: _Optional[_Union[ErrorDetail, _Mapping]] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("version", "host", "address", "serving", "draining", "uptime_s", "runs")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    SERVING_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    UPTIME_S_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    version: str
    host: str
    address: str
    serving: bool
    draining: bool
    uptime_s: float
    runs: int
    def __init__(self, version: _Optional[str] = ..., host: _Optional[str] = ..., address: _Optional[str] = ..., serving: _Optional[bool] = ..., draining: _Optional[bool] = ..., uptime_s: _Optional[float] = ..., runs: _Optional[int] = ...) -> None: ...

class ListRunsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListRunsResponse(_message.Message):
    __slots__ = ("runs",)
    RUNS_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[Run]
    def __init__(self, runs: _Optional[_Iterable[_Union[Run, _Mapping]]] = ...) -> None: ...

class GetRunRequest(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: str
    def __init__(self, run: _Optional[str] = ...) -> None: ...

class GetRunResponse(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: Run
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("run", "kind", "rules", "label", "entry", "at_s", "term", "host", "address", "phase", "fence", "here", "taking_part", "explanation", "worker_count", "barrier_count", "workers", "barriers")
    RUN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    AT_S_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    HERE_FIELD_NUMBER: _ClassVar[int]
    TAKING_PART_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    WORKER_COUNT_FIELD_NUMBER: _ClassVar[int]
    BARRIER_COUNT_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    BARRIERS_FIELD_NUMBER: _ClassVar[int]
    run: str
    kind: str
    rules: int
    label: str
    entry: int
    at_s: float
    term: int
    host: str
    address: str
    phase: str
    fence: int
    here: int
    taking_part: int
    explanation: Explanation
    worker_count: int
    barrier_count: int
    workers: _containers.RepeatedCompositeFieldContainer[Worker]
    barriers: _containers.RepeatedCompositeFieldContainer[Barrier]
    def __init__(self, run: _Optional[str] = ..., kind: _Optional[str] = ..., rules: _Optional[int] = ..., label: _Optional[str] = ..., entry: _Optional[int] = ..., at_s: _Optional[float] = ..., term: _Optional[int] = ..., host: _Optional[str] = ..., address: _Optional[str] = ..., phase: _Optional[str] = ..., fence: _Optional[int] = ..., here: _Optional[int] = ..., taking_part: _Optional[int] = ..., explanation: _Optional[_Union[Explanation, _Mapping]] = ..., worker_count: _Optional[int] = ..., barrier_count: _Optional[int] = ..., workers: _Optional[_Iterable[_Union[Worker, _Mapping]]] = ..., barriers: _Optional[_Iterable[_Union[Barrier, _Mapping]]] = ...) -> None: ...

class Explanation(_message.Message):
    __slots__ = ("sentence", "waits")
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    sentence: str
    waits: _containers.RepeatedCompositeFieldContainer[Wait]
    def __init__(self, sentence: _Optional[str] = ..., waits: _Optional[_Iterable[_Union[Wait, _Mapping]]] = ...) -> None: ...

class Wait(_message.Message):
    __slots__ = ("what", "missing", "waited_s", "left_s", "then")
    WHAT_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    WAITED_S_FIELD_NUMBER: _ClassVar[int]
    LEFT_S_FIELD_NUMBER: _ClassVar[int]
    THEN_FIELD_NUMBER: _ClassVar[int]
    what: str
    missing: _containers.RepeatedScalarFieldContainer[str]
    waited_s: float
    left_s: float
    then: str
    def __init__(self, what: _Optional[str] = ..., missing: _Optional[_Iterable[str]] = ..., waited_s: _Optional[float] = ..., left_s: _Optional[float] = ..., then: _Optional[str] = ...) -> None: ...

class Worker(_message.Message):
    __slots__ = ("worker", "state", "rank", "incarnation", "address", "gpus", "losses", "reason", "silent_s", "stuck_s", "waits", "step", "epoch", "progress", "cpu", "gpu", "memory", "task", "metrics")
    class MetricsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    WORKER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SILENT_S_FIELD_NUMBER: _ClassVar[int]
    STUCK_S_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    GPU_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    worker: str
    state: WorkerState
    rank: int
    incarnation: int
    address: str
    gpus: int
    losses: int
    reason: str
    silent_s: float
    stuck_s: float
    waits: bool
    step: int
    epoch: int
    progress: int
    cpu: float
    gpu: float
    memory: float
    task: str
    metrics: _containers.ScalarMap[str, float]
    def __init__(self, worker: _Optional[str] = ..., state: _Optional[_Union[WorkerState, str]] = ..., rank: _Optional[int] = ..., incarnation: _Optional[int] = ..., address: _Optional[str] = ..., gpus: _Optional[int] = ..., losses: _Optional[int] = ..., reason: _Optional[str] = ..., silent_s: _Optional[float] = ..., stuck_s: _Optional[float] = ..., waits: _Optional[bool] = ..., step: _Optional[int] = ..., epoch: _Optional[int] = ..., progress: _Optional[int] = ..., cpu: _Optional[float] = ..., gpu: _Optional[float] = ..., memory: _Optional[float] = ..., task: _Optional[str] = ..., metrics: _Optional[_Mapping[str, float]] = ...) -> None: ...

class Barrier(_message.Message):
    __slots__ = ("barrier", "generation", "step", "released", "aborted", "last_to_come", "longest_wait_s", "arrived", "missing", "waited_s")
    BARRIER_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    ABORTED_FIELD_NUMBER: _ClassVar[int]
    LAST_TO_COME_FIELD_NUMBER: _ClassVar[int]
    LONGEST_WAIT_S_FIELD_NUMBER: _ClassVar[int]
    ARRIVED_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    WAITED_S_FIELD_NUMBER: _ClassVar[int]
    barrier: str
    generation: int
    step: int
    released: int
    aborted: int
    last_to_come: str
    longest_wait_s: float
    arrived: int
    missing: _containers.RepeatedScalarFieldContainer[str]
    waited_s: float
    def __init__(self, barrier: _Optional[str] = ..., generation: _Optional[int] = ..., step: _Optional[int] = ..., released: _Optional[int] = ..., aborted: _Optional[int] = ..., last_to_come: _Optional[str] = ..., longest_wait_s: _Optional[float] = ..., arrived: _Optional[int] = ..., missing: _Optional[_Iterable[str]] = ..., waited_s: _Optional[float] = ...) -> None: ...

class CreateRunRequest(_message.Message):
    __slots__ = ("run", "kind", "config", "label", "request")
    RUN_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    run: str
    kind: str
    config: _struct_pb2.Struct
    label: str
    request: str
    def __init__(self, run: _Optional[str] = ..., kind: _Optional[str] = ..., config: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., label: _Optional[str] = ..., request: _Optional[str] = ...) -> None: ...

class CreateRunResponse(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: Run
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ...) -> None: ...

class StopRunRequest(_message.Message):
    __slots__ = ("run", "reason", "request")
    RUN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    run: str
    reason: str
    request: str
    def __init__(self, run: _Optional[str] = ..., reason: _Optional[str] = ..., request: _Optional[str] = ...) -> None: ...

class StopRunResponse(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: int
    def __init__(self, entry: _Optional[int] = ...) -> None: ...

class OrderWorkersRequest(_message.Message):
    __slots__ = ("run", "worker", "command", "arguments", "request")
    RUN_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    run: str
    worker: str
    command: OrderCommand
    arguments: _struct_pb2.Struct
    request: str
    def __init__(self, run: _Optional[str] = ..., worker: _Optional[str] = ..., command: _Optional[_Union[OrderCommand, str]] = ..., arguments: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ..., request: _Optional[str] = ...) -> None: ...

class OrderWorkersResponse(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: int
    def __init__(self, entry: _Optional[int] = ...) -> None: ...

class RollBackRunRequest(_message.Message):
    __slots__ = ("run", "reason", "request")
    RUN_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    run: str
    reason: str
    request: str
    def __init__(self, run: _Optional[str] = ..., reason: _Optional[str] = ..., request: _Optional[str] = ...) -> None: ...

class RollBackRunResponse(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: int
    def __init__(self, entry: _Optional[int] = ...) -> None: ...

class DropBarrierRequest(_message.Message):
    __slots__ = ("run", "barrier", "reason", "request")
    RUN_FIELD_NUMBER: _ClassVar[int]
    BARRIER_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    run: str
    barrier: str
    reason: str
    request: str
    def __init__(self, run: _Optional[str] = ..., barrier: _Optional[str] = ..., reason: _Optional[str] = ..., request: _Optional[str] = ...) -> None: ...

class DropBarrierResponse(_message.Message):
    __slots__ = ("entry",)
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    entry: int
    def __init__(self, entry: _Optional[int] = ...) -> None: ...

class ErrorDetail(_message.Message):
    __slots__ = ("code", "why", "fix", "address", "retry", "retry_after_s")
    CODE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    FIX_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    code: str
    why: str
    fix: str
    address: str
    retry: Retry
    retry_after_s: float
    def __init__(self, code: _Optional[str] = ..., why: _Optional[str] = ..., fix: _Optional[str] = ..., address: _Optional[str] = ..., retry: _Optional[_Union[Retry, str]] = ..., retry_after_s: _Optional[float] = ...) -> None: ...
