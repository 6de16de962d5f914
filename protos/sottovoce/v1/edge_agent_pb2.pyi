import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from sottovoce.v1 import training_pb2 as _training_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Treatment(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TREATMENT_UNSPECIFIED: _ClassVar[Treatment]
    TREATMENT_PASS: _ClassVar[Treatment]
    TREATMENT_NOISE: _ClassVar[Treatment]
    TREATMENT_DRAW: _ClassVar[Treatment]

class Where(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WHERE_UNSPECIFIED: _ClassVar[Where]
    WHERE_DEVICE: _ClassVar[Where]
    WHERE_CLOUD: _ClassVar[Where]
    WHERE_AUTO: _ClassVar[Where]

class PlainSampling(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLAIN_SAMPLING_UNSPECIFIED: _ClassVar[PlainSampling]
    PLAIN_SAMPLING_UNIFORM: _ClassVar[PlainSampling]
    PLAIN_SAMPLING_FREQUENCY: _ClassVar[PlainSampling]

class CustomizationState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CUSTOMIZATION_STATE_UNSPECIFIED: _ClassVar[CustomizationState]
    CUSTOMIZATION_STATE_UPLOADING: _ClassVar[CustomizationState]
    CUSTOMIZATION_STATE_TRAINING: _ClassVar[CustomizationState]
    CUSTOMIZATION_STATE_SUCCEEDED: _ClassVar[CustomizationState]
    CUSTOMIZATION_STATE_FAILED: _ClassVar[CustomizationState]
    CUSTOMIZATION_STATE_CANCELLED: _ClassVar[CustomizationState]
TREATMENT_UNSPECIFIED: Treatment
TREATMENT_PASS: Treatment
TREATMENT_NOISE: Treatment
TREATMENT_DRAW: Treatment
WHERE_UNSPECIFIED: Where
WHERE_DEVICE: Where
WHERE_CLOUD: Where
WHERE_AUTO: Where
PLAIN_SAMPLING_UNSPECIFIED: PlainSampling
PLAIN_SAMPLING_UNIFORM: PlainSampling
PLAIN_SAMPLING_FREQUENCY: PlainSampling
CUSTOMIZATION_STATE_UNSPECIFIED: CustomizationState
CUSTOMIZATION_STATE_UPLOADING: CustomizationState
CUSTOMIZATION_STATE_TRAINING: CustomizationState
CUSTOMIZATION_STATE_SUCCEEDED: CustomizationState
CUSTOMIZATION_STATE_FAILED: CustomizationState
CUSTOMIZATION_STATE_CANCELLED: CustomizationState

class PrivacyOptions(_message.Message):
    __slots__ = ("level", "mechanism", "policy")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    level: str
    mechanism: str
    policy: str
    def __init__(self, level: _Optional[str] = ..., mechanism: _Optional[str] = ..., policy: _Optional[str] = ...) -> None: ...

class ReleasedWord(_message.Message):
    __slots__ = ("start", "end", "released_start", "released_end", "tag", "protected", "replaced", "treatment", "hides")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    RELEASED_START_FIELD_NUMBER: _ClassVar[int]
    RELEASED_END_FIELD_NUMBER: _ClassVar[int]
    TAG_FIELD_NUMBER: _ClassVar[int]
    PROTECTED_FIELD_NUMBER: _ClassVar[int]
    REPLACED_FIELD_NUMBER: _ClassVar[int]
    TREATMENT_FIELD_NUMBER: _ClassVar[int]
    HIDES_FIELD_NUMBER: _ClassVar[int]
    start: int
    end: int
    released_start: int
    released_end: int
    tag: str
    protected: bool
    replaced: bool
    treatment: Treatment
    hides: str
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ..., released_start: _Optional[int] = ..., released_end: _Optional[int] = ..., tag: _Optional[str] = ..., protected: _Optional[bool] = ..., replaced: _Optional[bool] = ..., treatment: _Optional[_Union[Treatment, str]] = ..., hides: _Optional[str] = ...) -> None: ...

class PrivatizeRequest(_message.Message):
    __slots__ = ("text", "privacy", "words", "session")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    PRIVACY_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    text: str
    privacy: PrivacyOptions
    words: bool
    session: str
    def __init__(self, text: _Optional[str] = ..., privacy: _Optional[_Union[PrivacyOptions, _Mapping]] = ..., words: _Optional[bool] = ..., session: _Optional[str] = ...) -> None: ...

class PrivatizeResponse(_message.Message):
    __slots__ = ("text", "words", "level", "mechanism", "eta", "bundle_id")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    ETA_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_ID_FIELD_NUMBER: _ClassVar[int]
    text: str
    words: _containers.RepeatedCompositeFieldContainer[ReleasedWord]
    level: str
    mechanism: str
    eta: float
    bundle_id: str
    def __init__(self, text: _Optional[str] = ..., words: _Optional[_Iterable[_Union[ReleasedWord, _Mapping]]] = ..., level: _Optional[str] = ..., mechanism: _Optional[str] = ..., eta: _Optional[float] = ..., bundle_id: _Optional[str] = ...) -> None: ...

class PrivatizeStreamRequest(_message.Message):
    __slots__ = ("request_id", "request")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    request: PrivatizeRequest
    def __init__(self, request_id: _Optional[str] = ..., request: _Optional[_Union[PrivatizeRequest, _Mapping]] = ...) -> None: ...

class PrivatizeStreamResponse(_message.Message):
    __slots__ = ("request_id", "response")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    response: PrivatizeResponse
    def __init__(self, request_id: _Optional[str] = ..., response: _Optional[_Union[PrivatizeResponse, _Mapping]] = ...) -> None: ...

class PredictRequest(_message.Message):
    __slots__ = ("text", "adapter", "privacy", "session", "where")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    PRIVACY_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    text: str
    adapter: str
    privacy: PrivacyOptions
    session: str
    where: Where
    def __init__(self, text: _Optional[str] = ..., adapter: _Optional[str] = ..., privacy: _Optional[_Union[PrivacyOptions, _Mapping]] = ..., session: _Optional[str] = ..., where: _Optional[_Union[Where, str]] = ...) -> None: ...

class LabelScore(_message.Message):
    __slots__ = ("label", "score")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    label: str
    score: float
    def __init__(self, label: _Optional[str] = ..., score: _Optional[float] = ...) -> None: ...

class PredictResponse(_message.Message):
    __slots__ = ("label", "scores", "released_text", "answered")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    RELEASED_TEXT_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    label: str
    scores: _containers.RepeatedCompositeFieldContainer[LabelScore]
    released_text: str
    answered: Where
    def __init__(self, label: _Optional[str] = ..., scores: _Optional[_Iterable[_Union[LabelScore, _Mapping]]] = ..., released_text: _Optional[str] = ..., answered: _Optional[_Union[Where, str]] = ...) -> None: ...

class PredictStreamRequest(_message.Message):
    __slots__ = ("request_id", "request")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    request: PredictRequest
    def __init__(self, request_id: _Optional[str] = ..., request: _Optional[_Union[PredictRequest, _Mapping]] = ...) -> None: ...

class PredictStreamResponse(_message.Message):
    __slots__ = ("request_id", "response")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    response: PredictResponse
    def __init__(self, request_id: _Optional[str] = ..., response: _Optional[_Union[PredictResponse, _Mapping]] = ...) -> None: ...

class EmbedRequest(_message.Message):
    __slots__ = ("text", "level", "local")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    text: str
    level: str
    local: bool
    def __init__(self, text: _Optional[str] = ..., level: _Optional[str] = ..., local: _Optional[bool] = ...) -> None: ...

class EmbedResponse(_message.Message):
    __slots__ = ("embedding", "level", "eta", "tokens", "truncated", "bundle_id")
    EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    ETA_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_ID_FIELD_NUMBER: _ClassVar[int]
    embedding: _containers.RepeatedScalarFieldContainer[float]
    level: str
    eta: float
    tokens: int
    truncated: bool
    bundle_id: str
    def __init__(self, embedding: _Optional[_Iterable[float]] = ..., level: _Optional[str] = ..., eta: _Optional[float] = ..., tokens: _Optional[int] = ..., truncated: _Optional[bool] = ..., bundle_id: _Optional[str] = ...) -> None: ...

class EmbedStreamRequest(_message.Message):
    __slots__ = ("request_id", "request")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    request: EmbedRequest
    def __init__(self, request_id: _Optional[str] = ..., request: _Optional[_Union[EmbedRequest, _Mapping]] = ...) -> None: ...

class EmbedStreamResponse(_message.Message):
    __slots__ = ("request_id", "response")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    response: EmbedResponse
    def __init__(self, request_id: _Optional[str] = ..., response: _Optional[_Union[EmbedResponse, _Mapping]] = ...) -> None: ...

class CustomizeRequest(_message.Message):
    __slots__ = ("settings", "examples")
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    settings: CustomizationSettings
    examples: LabelledTexts
    def __init__(self, settings: _Optional[_Union[CustomizationSettings, _Mapping]] = ..., examples: _Optional[_Union[LabelledTexts, _Mapping]] = ...) -> None: ...

class CustomizationSettings(_message.Message):
    __slots__ = ("adapter", "privacy", "training", "label_epsilon", "request_id", "plain_sequences", "plain_vocabulary", "plain_sampling", "dp_few_examples", "replace", "add", "corrections")
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    PRIVACY_FIELD_NUMBER: _ClassVar[int]
    TRAINING_FIELD_NUMBER: _ClassVar[int]
    LABEL_EPSILON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PLAIN_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    PLAIN_VOCABULARY_FIELD_NUMBER: _ClassVar[int]
    PLAIN_SAMPLING_FIELD_NUMBER: _ClassVar[int]
    DP_FEW_EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    ADD_FIELD_NUMBER: _ClassVar[int]
    CORRECTIONS_FIELD_NUMBER: _ClassVar[int]
    adapter: str
    privacy: PrivacyOptions
    training: _training_pb2.TrainingSettings
    label_epsilon: float
    request_id: str
    plain_sequences: int
    plain_vocabulary: int
    plain_sampling: PlainSampling
    dp_few_examples: bool
    replace: bool
    add: bool
    corrections: bool
    def __init__(self, adapter: _Optional[str] = ..., privacy: _Optional[_Union[PrivacyOptions, _Mapping]] = ..., training: _Optional[_Union[_training_pb2.TrainingSettings, _Mapping]] = ..., label_epsilon: _Optional[float] = ..., request_id: _Optional[str] = ..., plain_sequences: _Optional[int] = ..., plain_vocabulary: _Optional[int] = ..., plain_sampling: _Optional[_Union[PlainSampling, str]] = ..., dp_few_examples: _Optional[bool] = ..., replace: _Optional[bool] = ..., add: _Optional[bool] = ..., corrections: _Optional[bool] = ...) -> None: ...

class LabelledText(_message.Message):
    __slots__ = ("text", "label", "output", "public")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_FIELD_NUMBER: _ClassVar[int]
    text: str
    label: str
    output: str
    public: bool
    def __init__(self, text: _Optional[str] = ..., label: _Optional[str] = ..., output: _Optional[str] = ..., public: _Optional[bool] = ...) -> None: ...

class LabelledTexts(_message.Message):
    __slots__ = ("examples",)
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    examples: _containers.RepeatedCompositeFieldContainer[LabelledText]
    def __init__(self, examples: _Optional[_Iterable[_Union[LabelledText, _Mapping]]] = ...) -> None: ...

class Customization(_message.Message):
    __slots__ = ("id", "adapter", "state", "examples", "uploaded", "job_id", "progress", "message", "create_time", "bytes_sent", "adapter_id", "set_aside", "privacy", "method", "task", "local")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EXAMPLES_FIELD_NUMBER: _ClassVar[int]
    UPLOADED_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CREATE_TIME_FIELD_NUMBER: _ClassVar[int]
    BYTES_SENT_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_ID_FIELD_NUMBER: _ClassVar[int]
    SET_ASIDE_FIELD_NUMBER: _ClassVar[int]
    PRIVACY_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    LOCAL_FIELD_NUMBER: _ClassVar[int]
    id: str
    adapter: str
    state: CustomizationState
    examples: int
    uploaded: int
    job_id: str
    progress: _training_pb2.JobProgress
    message: str
    create_time: _timestamp_pb2.Timestamp
    bytes_sent: int
    adapter_id: str
    set_aside: bool
    privacy: PrivacyOptions
    method: _training_pb2.Method
    task: _training_pb2.Task
    local: bool
    def __init__(self, id: _Optional[str] = ..., adapter: _Optional[str] = ..., state: _Optional[_Union[CustomizationState, str]] = ..., examples: _Optional[int] = ..., uploaded: _Optional[int] = ..., job_id: _Optional[str] = ..., progress: _Optional[_Union[_training_pb2.JobProgress, _Mapping]] = ..., message: _Optional[str] = ..., create_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., bytes_sent: _Optional[int] = ..., adapter_id: _Optional[str] = ..., set_aside: _Optional[bool] = ..., privacy: _Optional[_Union[PrivacyOptions, _Mapping]] = ..., method: _Optional[_Union[_training_pb2.Method, str]] = ..., task: _Optional[_Union[_training_pb2.Task, str]] = ..., local: _Optional[bool] = ...) -> None: ...

class CustomizeResponse(_message.Message):
    __slots__ = ("customization",)
    CUSTOMIZATION_FIELD_NUMBER: _ClassVar[int]
    customization: Customization
    def __init__(self, customization: _Optional[_Union[Customization, _Mapping]] = ...) -> None: ...

class WatchCustomizationRequest(_message.Message):
    __slots__ = ("id", "adapter")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    id: str
    adapter: str
    def __init__(self, id: _Optional[str] = ..., adapter: _Optional[str] = ...) -> None: ...

class WatchCustomizationResponse(_message.Message):
    __slots__ = ("customization",)
    CUSTOMIZATION_FIELD_NUMBER: _ClassVar[int]
    customization: Customization
    def __init__(self, customization: _Optional[_Union[Customization, _Mapping]] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class LevelStatus(_message.Message):
    __slots__ = ("name", "eta", "replaced", "map_attack")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ETA_FIELD_NUMBER: _ClassVar[int]
    REPLACED_FIELD_NUMBER: _ClassVar[int]
    MAP_ATTACK_FIELD_NUMBER: _ClassVar[int]
    name: str
    eta: float
    replaced: float
    map_attack: float
    def __init__(self, name: _Optional[str] = ..., eta: _Optional[float] = ..., replaced: _Optional[float] = ..., map_attack: _Optional[float] = ...) -> None: ...

class EmbedLevelStatus(_message.Message):
    __slots__ = ("name", "eta", "map_attack")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ETA_FIELD_NUMBER: _ClassVar[int]
    MAP_ATTACK_FIELD_NUMBER: _ClassVar[int]
    name: str
    eta: float
    map_attack: float
    def __init__(self, name: _Optional[str] = ..., eta: _Optional[float] = ..., map_attack: _Optional[float] = ...) -> None: ...

class LedgerStatus(_message.Message):
    __slots__ = ("spent", "limit", "releases", "label_epsilon", "labels_randomized", "labels_as_they_are", "adapters_private", "adapter_epsilon", "adapter_delta")
    SPENT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    LABEL_EPSILON_FIELD_NUMBER: _ClassVar[int]
    LABELS_RANDOMIZED_FIELD_NUMBER: _ClassVar[int]
    LABELS_AS_THEY_ARE_FIELD_NUMBER: _ClassVar[int]
    ADAPTERS_PRIVATE_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_EPSILON_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_DELTA_FIELD_NUMBER: _ClassVar[int]
    spent: float
    limit: float
    releases: int
    label_epsilon: float
    labels_randomized: int
    labels_as_they_are: int
    adapters_private: int
    adapter_epsilon: float
    adapter_delta: float
    def __init__(self, spent: _Optional[float] = ..., limit: _Optional[float] = ..., releases: _Optional[int] = ..., label_epsilon: _Optional[float] = ..., labels_randomized: _Optional[int] = ..., labels_as_they_are: _Optional[int] = ..., adapters_private: _Optional[int] = ..., adapter_epsilon: _Optional[float] = ..., adapter_delta: _Optional[float] = ...) -> None: ...

class CorrectionsStatus(_message.Message):
    __slots__ = ("adapter", "waiting", "taken")
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    adapter: str
    waiting: int
    taken: int
    def __init__(self, adapter: _Optional[str] = ..., waiting: _Optional[int] = ..., taken: _Optional[int] = ...) -> None: ...

class GetStatusResponse(_message.Message):
    __slots__ = ("version", "bundle_id", "backbone", "levels", "default_level", "default_mechanism", "cloud_address", "ledger", "customizations", "embed_levels", "openai_address", "corrections")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_ID_FIELD_NUMBER: _ClassVar[int]
    BACKBONE_FIELD_NUMBER: _ClassVar[int]
    LEVELS_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_LEVEL_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_MECHANISM_FIELD_NUMBER: _ClassVar[int]
    CLOUD_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    LEDGER_FIELD_NUMBER: _ClassVar[int]
    CUSTOMIZATIONS_FIELD_NUMBER: _ClassVar[int]
    EMBED_LEVELS_FIELD_NUMBER: _ClassVar[int]
    OPENAI_ADDRESS_FIELD_NUMBER: _ClassVar[int]
    CORRECTIONS_FIELD_NUMBER: _ClassVar[int]
    version: str
    bundle_id: str
    backbone: str
    levels: _containers.RepeatedCompositeFieldContainer[LevelStatus]
    default_level: str
    default_mechanism: str
    cloud_address: str
    ledger: LedgerStatus
    customizations: _containers.RepeatedCompositeFieldContainer[Customization]
    embed_levels: _containers.RepeatedCompositeFieldContainer[EmbedLevelStatus]
    openai_address: str
    corrections: _containers.RepeatedCompositeFieldContainer[CorrectionsStatus]
    def __init__(self, version: _Optional[str] = ..., bundle_id: _Optional[str] = ..., backbone: _Optional[str] = ..., levels: _Optional[_Iterable[_Union[LevelStatus, _Mapping]]] = ..., default_level: _Optional[str] = ..., default_mechanism: _Optional[str] = ..., cloud_address: _Optional[str] = ..., ledger: _Optional[_Union[LedgerStatus, _Mapping]] = ..., customizations: _Optional[_Iterable[_Union[Customization, _Mapping]]] = ..., embed_levels: _Optional[_Iterable[_Union[EmbedLevelStatus, _Mapping]]] = ..., openai_address: _Optional[str] = ..., corrections: _Optional[_Iterable[_Union[CorrectionsStatus, _Mapping]]] = ...) -> None: ...
