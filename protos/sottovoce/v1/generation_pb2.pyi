from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_SYSTEM: _ClassVar[Role]
    ROLE_USER: _ClassVar[Role]
    ROLE_ASSISTANT: _ClassVar[Role]
    ROLE_TOOL: _ClassVar[Role]

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_REASON_UNSPECIFIED: _ClassVar[FinishReason]
    FINISH_REASON_STOP: _ClassVar[FinishReason]
    FINISH_REASON_LENGTH: _ClassVar[FinishReason]
    FINISH_REASON_CONTENT_FILTER: _ClassVar[FinishReason]
ROLE_UNSPECIFIED: Role
ROLE_SYSTEM: Role
ROLE_USER: Role
ROLE_ASSISTANT: Role
ROLE_TOOL: Role
FINISH_REASON_UNSPECIFIED: FinishReason
FINISH_REASON_STOP: FinishReason
FINISH_REASON_LENGTH: FinishReason
FINISH_REASON_CONTENT_FILTER: FinishReason

class ReleasedTurn(_message.Message):
    __slots__ = ("role", "released_text")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    RELEASED_TEXT_FIELD_NUMBER: _ClassVar[int]
    role: Role
    released_text: str
    def __init__(self, role: _Optional[_Union[Role, str]] = ..., released_text: _Optional[str] = ...) -> None: ...

class ReleasedConversation(_message.Message):
    __slots__ = ("turns",)
    TURNS_FIELD_NUMBER: _ClassVar[int]
    turns: _containers.RepeatedCompositeFieldContainer[ReleasedTurn]
    def __init__(self, turns: _Optional[_Iterable[_Union[ReleasedTurn, _Mapping]]] = ...) -> None: ...

class GenerateSampling(_message.Message):
    __slots__ = ("max_tokens", "temperature", "top_p", "seed")
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    max_tokens: int
    temperature: float
    top_p: float
    seed: int
    def __init__(self, max_tokens: _Optional[int] = ..., temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., seed: _Optional[int] = ...) -> None: ...

class GenerateRequest(_message.Message):
    __slots__ = ("adapter", "conversation", "released_text", "bundle_id", "sampling", "released_stops", "padding")
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    RELEASED_TEXT_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_ID_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    RELEASED_STOPS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    adapter: str
    conversation: ReleasedConversation
    released_text: str
    bundle_id: str
    sampling: GenerateSampling
    released_stops: _containers.RepeatedScalarFieldContainer[str]
    padding: bytes
    def __init__(self, adapter: _Optional[str] = ..., conversation: _Optional[_Union[ReleasedConversation, _Mapping]] = ..., released_text: _Optional[str] = ..., bundle_id: _Optional[str] = ..., sampling: _Optional[_Union[GenerateSampling, _Mapping]] = ..., released_stops: _Optional[_Iterable[str]] = ..., padding: _Optional[bytes] = ...) -> None: ...

class GenerateDone(_message.Message):
    __slots__ = ("finish_reason", "prompt_tokens", "completion_tokens")
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    finish_reason: FinishReason
    prompt_tokens: int
    completion_tokens: int
    def __init__(self, finish_reason: _Optional[_Union[FinishReason, str]] = ..., prompt_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ...) -> None: ...

class GenerateResponse(_message.Message):
    __slots__ = ("delta_text", "done", "padding")
    DELTA_TEXT_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    delta_text: str
    done: GenerateDone
    padding: bytes
    def __init__(self, delta_text: _Optional[str] = ..., done: _Optional[_Union[GenerateDone, _Mapping]] = ..., padding: _Optional[bytes] = ...) -> None: ...
