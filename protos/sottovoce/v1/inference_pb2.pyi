from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class InferenceServicePredictRequest(_message.Message):
    __slots__ = ("adapter", "released_text", "bundle_id", "padding")
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    RELEASED_TEXT_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_ID_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    adapter: str
    released_text: str
    bundle_id: str
    padding: bytes
    def __init__(self, adapter: _Optional[str] = ..., released_text: _Optional[str] = ..., bundle_id: _Optional[str] = ..., padding: _Optional[bytes] = ...) -> None: ...

class ClassScore(_message.Message):
    __slots__ = ("label", "probability")
    LABEL_FIELD_NUMBER: _ClassVar[int]
    PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    label: str
    probability: float
    def __init__(self, label: _Optional[str] = ..., probability: _Optional[float] = ...) -> None: ...

class InferenceServicePredictResponse(_message.Message):
    __slots__ = ("scores",)
    SCORES_FIELD_NUMBER: _ClassVar[int]
    scores: _containers.RepeatedCompositeFieldContainer[ClassScore]
    def __init__(self, scores: _Optional[_Iterable[_Union[ClassScore, _Mapping]]] = ...) -> None: ...

class InferenceServicePredictStreamRequest(_message.Message):
    __slots__ = ("request_id", "request")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    request: InferenceServicePredictRequest
    def __init__(self, request_id: _Optional[str] = ..., request: _Optional[_Union[InferenceServicePredictRequest, _Mapping]] = ...) -> None: ...

class InferenceServicePredictStreamResponse(_message.Message):
    __slots__ = ("request_id", "response")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    response: InferenceServicePredictResponse
    def __init__(self, request_id: _Optional[str] = ..., response: _Optional[_Union[InferenceServicePredictResponse, _Mapping]] = ...) -> None: ...

class EncodeRequest(_message.Message):
    __slots__ = ("request_id", "bundle_id", "mechanism", "eta", "tokens", "vectors", "padding")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_ID_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    ETA_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    bundle_id: str
    mechanism: str
    eta: float
    tokens: int
    vectors: bytes
    padding: bytes
    def __init__(self, request_id: _Optional[str] = ..., bundle_id: _Optional[str] = ..., mechanism: _Optional[str] = ..., eta: _Optional[float] = ..., tokens: _Optional[int] = ..., vectors: _Optional[bytes] = ..., padding: _Optional[bytes] = ...) -> None: ...

class EncodeResponse(_message.Message):
    __slots__ = ("request_id", "embedding")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    embedding: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, request_id: _Optional[str] = ..., embedding: _Optional[_Iterable[float]] = ...) -> None: ...

class EncodeStreamRequest(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: EncodeRequest
    def __init__(self, request: _Optional[_Union[EncodeRequest, _Mapping]] = ...) -> None: ...

class EncodeStreamResponse(_message.Message):
    __slots__ = ("response",)
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    response: EncodeResponse
    def __init__(self, response: _Optional[_Union[EncodeResponse, _Mapping]] = ...) -> None: ...
