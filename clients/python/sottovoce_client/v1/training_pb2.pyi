import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_STATE_UNSPECIFIED: _ClassVar[JobState]
    JOB_STATE_UPLOADING: _ClassVar[JobState]
    JOB_STATE_QUEUED: _ClassVar[JobState]
    JOB_STATE_RUNNING: _ClassVar[JobState]
    JOB_STATE_SUCCEEDED: _ClassVar[JobState]
    JOB_STATE_FAILED: _ClassVar[JobState]
    JOB_STATE_CANCELLED: _ClassVar[JobState]

class Method(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    METHOD_UNSPECIFIED: _ClassVar[Method]
    METHOD_LORA: _ClassVar[Method]
    METHOD_QLORA: _ClassVar[Method]
    METHOD_PROMPT_TUNING: _ClassVar[Method]
    METHOD_PREFIX_TUNING: _ClassVar[Method]
    METHOD_FULL_FINE_TUNING: _ClassVar[Method]
    METHOD_HEAD: _ClassVar[Method]

class Task(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TASK_UNSPECIFIED: _ClassVar[Task]
    TASK_CLASSIFICATION: _ClassVar[Task]
    TASK_GENERATION: _ClassVar[Task]
JOB_STATE_UNSPECIFIED: JobState
JOB_STATE_UPLOADING: JobState
JOB_STATE_QUEUED: JobState
JOB_STATE_RUNNING: JobState
JOB_STATE_SUCCEEDED: JobState
JOB_STATE_FAILED: JobState
JOB_STATE_CANCELLED: JobState
METHOD_UNSPECIFIED: Method
METHOD_LORA: Method
METHOD_QLORA: Method
METHOD_PROMPT_TUNING: Method
METHOD_PREFIX_TUNING: Method
METHOD_FULL_FINE_TUNING: Method
METHOD_HEAD: Method
TASK_UNSPECIFIED: Task
TASK_CLASSIFICATION: Task
TASK_GENERATION: Task

class TrainingSettings(_message.Message):
    __slots__ = ("method", "reconstruction", "plain_tokens", "epochs", "batch_size", "learning_rate", "seed", "virtual_tokens", "rank", "label_words", "reconstruction_width", "reconstruction_weight", "dp_epsilon", "dp_delta", "task", "pate", "continues")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    RECONSTRUCTION_FIELD_NUMBER: _ClassVar[int]
    PLAIN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    LEARNING_RATE_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    LABEL_WORDS_FIELD_NUMBER: _ClassVar[int]
    RECONSTRUCTION_WIDTH_FIELD_NUMBER: _ClassVar[int]
    RECONSTRUCTION_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    DP_EPSILON_FIELD_NUMBER: _ClassVar[int]
    DP_DELTA_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    PATE_FIELD_NUMBER: _ClassVar[int]
    CONTINUES_FIELD_NUMBER: _ClassVar[int]
    method: Method
    reconstruction: bool
    plain_tokens: int
    epochs: int
    batch_size: int
    learning_rate: float
    seed: int
    virtual_tokens: int
    rank: int
    label_words: bool
    reconstruction_width: int
    reconstruction_weight: float
    dp_epsilon: float
    dp_delta: float
    task: Task
    pate: bool
    continues: bool
    def __init__(self, method: _Optional[_Union[Method, str]] = ..., reconstruction: _Optional[bool] = ..., plain_tokens: _Optional[int] = ..., epochs: _Optional[int] = ..., batch_size: _Optional[int] = ..., learning_rate: _Optional[float] = ..., seed: _Optional[int] = ..., virtual_tokens: _Optional[int] = ..., rank: _Optional[int] = ..., label_words: _Optional[bool] = ..., reconstruction_width: _Optional[int] = ..., reconstruction_weight: _Optional[float] = ..., dp_epsilon: _Optional[float] = ..., dp_delta: _Optional[float] = ..., task: _Optional[_Union[Task, str]] = ..., pate: _Optional[bool] = ..., continues: _Optional[bool] = ...) -> None: ...

class ReleaseSettings(_message.Message):
    __slots__ = ("mechanism", "eta", "level", "bundle_id", "policy")
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    ETA_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_ID_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    mechanism: str
    eta: float
    level: str
    bundle_id: str
    policy: str
    def __init__(self, mechanism: _Optional[str] = ..., eta: _Optional[float] = ..., level: _Optional[str] = ..., bundle_id: _Optional[str] = ..., policy: _Optional[str] = ...) -> None: ...

class JobProgress(_message.Message):
    __slots__ = ("epoch", "epochs", "step", "steps", "loss", "reconstruction_loss", "held_out_accuracy", "examples_per_second", "seconds_left")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    EPOCHS_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    RECONSTRUCTION_LOSS_FIELD_NUMBER: _ClassVar[int]
    HELD_OUT_ACCURACY_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    SECONDS_LEFT_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    reconstruction_loss: float
    held_out_accuracy: float
    examples_per_second: float
    seconds_left: float
    def __init__(self, epoch: _Optional[int] = ..., epochs: _Optional[int] = ..., step: _Optional[int] = ..., steps: _Optional[int] = ..., loss: _Optional[float] = ..., reconstruction_loss: _Optional[float] = ..., held_out_accuracy: _Optional[float] = ..., examples_per_second: _Optional[float] = ..., seconds_left: _Optional[float] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("id", "adapter", "state", "training", "release", "next_sequence", "progress", "labels", "message", "create_time", "update_time")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TRAINING_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    NEXT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TIME_FIELD_NUMBER: _ClassVar[int]
    id: str
    adapter: str
    state: JobState
    training: TrainingSettings
    release: ReleaseSettings
    next_sequence: int
    progress: JobProgress
    labels: _containers.RepeatedScalarFieldContainer[str]
    message: str
    create_time: _timestamp_pb2.Timestamp
    update_time: _timestamp_pb2.Timestamp
    def __init__(self, id: _Optional[str] = ..., adapter: _Optional[str] = ..., state: _Optional[_Union[JobState, str]] = ..., training: _Optional[_Union[TrainingSettings, _Mapping]] = ..., release: _Optional[_Union[ReleaseSettings, _Mapping]] = ..., next_sequence: _Optional[int] = ..., progress: _Optional[_Union[JobProgress, _Mapping]] = ..., labels: _Optional[_Iterable[str]] = ..., message: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., update_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CreateJobRequest(_message.Message):
    __slots__ = ("request_id", "adapter", "training", "release")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    TRAINING_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    adapter: str
    training: TrainingSettings
    release: ReleaseSettings
    def __init__(self, request_id: _Optional[str] = ..., adapter: _Optional[str] = ..., training: _Optional[_Union[TrainingSettings, _Mapping]] = ..., release: _Optional[_Union[ReleaseSettings, _Mapping]] = ...) -> None: ...

class CreateJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class PrivatizedExample(_message.Message):
    __slots__ = ("example_id", "released_text", "label", "released_plain_tokens", "plain_token_ids", "released_output")
    EXAMPLE_ID_FIELD_NUMBER: _ClassVar[int]
    RELEASED_TEXT_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    RELEASED_PLAIN_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PLAIN_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    RELEASED_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    example_id: str
    released_text: str
    label: str
    released_plain_tokens: _containers.RepeatedScalarFieldContainer[str]
    plain_token_ids: _containers.RepeatedScalarFieldContainer[int]
    released_output: str
    def __init__(self, example_id: _Optional[str] = ..., released_text: _Optional[str] = ..., label: _Optional[str] = ..., released_plain_tokens: _Optional[_Iterable[str]] = ..., plain_token_ids: _Optional[_Iterable[int]] = ..., released_output: _Optional[str] = ...) -> None: ...

class UploadExamplesRequest(_message.Message):
    __slots__ = ("job_id", "first_sequence", "examples", "padding")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    first_sequence: int
    examples: _containers.RepeatedCompositeFieldContainer[PrivatizedExample]
    padding: bytes
    def __init__(self, job_id: _Optional[str] = ..., first_sequence: _Optional[int] = ..., examples: _Optional[_Iterable[_Union[PrivatizedExample, _Mapping]]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class UploadExamplesResponse(_message.Message):
    __slots__ = ("next_sequence",)
    NEXT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    next_sequence: int
    def __init__(self, next_sequence: _Optional[int] = ...) -> None: ...

class StartJobRequest(_message.Message):
    __slots__ = ("job_id", "total_examples")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TOTAL_EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    total_examples: int
    def __init__(self, job_id: _Optional[str] = ..., total_examples: _Optional[int] = ...) -> None: ...

class StartJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class GetJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class WatchJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class WatchJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class CancelJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class CancelJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ("jobs", "next_page_token")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    next_page_token: str
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class DeleteJobResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReinstateAdapterRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class ReinstateAdapterResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class GetAdapterRequest(_message.Message):
    __slots__ = ("adapter", "sha256", "offset")
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    adapter: str
    sha256: str
    offset: int
    def __init__(self, adapter: _Optional[str] = ..., sha256: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class AdapterFile(_message.Message):
    __slots__ = ("sha256", "bytes")
    SHA256_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    sha256: str
    bytes: int
    def __init__(self, sha256: _Optional[str] = ..., bytes: _Optional[int] = ...) -> None: ...

class GetAdapterResponse(_message.Message):
    __slots__ = ("file", "chunk")
    FILE_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    file: AdapterFile
    chunk: bytes
    def __init__(self, file: _Optional[_Union[AdapterFile, _Mapping]] = ..., chunk: _Optional[bytes] = ...) -> None: ...

class WatchAdaptersRequest(_message.Message):
    __slots__ = ("adapters",)
    ADAPTERS_FIELD_NUMBER: _ClassVar[int]
    adapters: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, adapters: _Optional[_Iterable[str]] = ...) -> None: ...

class WatchAdaptersResponse(_message.Message):
    __slots__ = ("adapter", "version")
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    adapter: str
    version: str
    def __init__(self, adapter: _Optional[str] = ..., version: _Optional[str] = ...) -> None: ...
