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

class ToolUse(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOOL_USE_UNSPECIFIED: _ClassVar[ToolUse]
    TOOL_USE_NONE: _ClassVar[ToolUse]
    TOOL_USE_REQUIRED: _ClassVar[ToolUse]

class ReasoningEffort(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REASONING_EFFORT_UNSPECIFIED: _ClassVar[ReasoningEffort]
    REASONING_EFFORT_NONE: _ClassVar[ReasoningEffort]
    REASONING_EFFORT_MINIMAL: _ClassVar[ReasoningEffort]
    REASONING_EFFORT_LOW: _ClassVar[ReasoningEffort]
    REASONING_EFFORT_MEDIUM: _ClassVar[ReasoningEffort]
    REASONING_EFFORT_HIGH: _ClassVar[ReasoningEffort]
    REASONING_EFFORT_XHIGH: _ClassVar[ReasoningEffort]

class Verbosity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERBOSITY_UNSPECIFIED: _ClassVar[Verbosity]
    VERBOSITY_LOW: _ClassVar[Verbosity]
    VERBOSITY_MEDIUM: _ClassVar[Verbosity]
    VERBOSITY_HIGH: _ClassVar[Verbosity]

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FINISH_REASON_UNSPECIFIED: _ClassVar[FinishReason]
    FINISH_REASON_STOP: _ClassVar[FinishReason]
    FINISH_REASON_LENGTH: _ClassVar[FinishReason]
    FINISH_REASON_CONTENT_FILTER: _ClassVar[FinishReason]
    FINISH_REASON_TOOL_CALLS: _ClassVar[FinishReason]
ROLE_UNSPECIFIED: Role
ROLE_SYSTEM: Role
ROLE_USER: Role
ROLE_ASSISTANT: Role
ROLE_TOOL: Role
TOOL_USE_UNSPECIFIED: ToolUse
TOOL_USE_NONE: ToolUse
TOOL_USE_REQUIRED: ToolUse
REASONING_EFFORT_UNSPECIFIED: ReasoningEffort
REASONING_EFFORT_NONE: ReasoningEffort
REASONING_EFFORT_MINIMAL: ReasoningEffort
REASONING_EFFORT_LOW: ReasoningEffort
REASONING_EFFORT_MEDIUM: ReasoningEffort
REASONING_EFFORT_HIGH: ReasoningEffort
REASONING_EFFORT_XHIGH: ReasoningEffort
VERBOSITY_UNSPECIFIED: Verbosity
VERBOSITY_LOW: Verbosity
VERBOSITY_MEDIUM: Verbosity
VERBOSITY_HIGH: Verbosity
FINISH_REASON_UNSPECIFIED: FinishReason
FINISH_REASON_STOP: FinishReason
FINISH_REASON_LENGTH: FinishReason
FINISH_REASON_CONTENT_FILTER: FinishReason
FINISH_REASON_TOOL_CALLS: FinishReason

class ReleasedToolCall(_message.Message):
    __slots__ = ("id", "released_name", "released_arguments")
    ID_FIELD_NUMBER: _ClassVar[int]
    RELEASED_NAME_FIELD_NUMBER: _ClassVar[int]
    RELEASED_ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    released_name: str
    released_arguments: str
    def __init__(self, id: _Optional[str] = ..., released_name: _Optional[str] = ..., released_arguments: _Optional[str] = ...) -> None: ...

class ReleasedTurn(_message.Message):
    __slots__ = ("role", "released_text", "tool_calls", "tool_call_id")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    RELEASED_TEXT_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    role: Role
    released_text: str
    tool_calls: _containers.RepeatedCompositeFieldContainer[ReleasedToolCall]
    tool_call_id: str
    def __init__(self, role: _Optional[_Union[Role, str]] = ..., released_text: _Optional[str] = ..., tool_calls: _Optional[_Iterable[_Union[ReleasedToolCall, _Mapping]]] = ..., tool_call_id: _Optional[str] = ...) -> None: ...

class ReleasedTool(_message.Message):
    __slots__ = ("released_name", "released_description", "released_parameters")
    RELEASED_NAME_FIELD_NUMBER: _ClassVar[int]
    RELEASED_DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    RELEASED_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    released_name: str
    released_description: str
    released_parameters: str
    def __init__(self, released_name: _Optional[str] = ..., released_description: _Optional[str] = ..., released_parameters: _Optional[str] = ...) -> None: ...

class ReleasedConversation(_message.Message):
    __slots__ = ("turns",)
    TURNS_FIELD_NUMBER: _ClassVar[int]
    turns: _containers.RepeatedCompositeFieldContainer[ReleasedTurn]
    def __init__(self, turns: _Optional[_Iterable[_Union[ReleasedTurn, _Mapping]]] = ...) -> None: ...

class ReleasedFormat(_message.Message):
    __slots__ = ("released_name", "released_description", "released_schema", "strict")
    RELEASED_NAME_FIELD_NUMBER: _ClassVar[int]
    RELEASED_DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    RELEASED_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    STRICT_FIELD_NUMBER: _ClassVar[int]
    released_name: str
    released_description: str
    released_schema: str
    strict: bool
    def __init__(self, released_name: _Optional[str] = ..., released_description: _Optional[str] = ..., released_schema: _Optional[str] = ..., strict: _Optional[bool] = ...) -> None: ...

class GenerateSampling(_message.Message):
    __slots__ = ("max_tokens", "temperature", "top_p", "seed", "presence_penalty", "frequency_penalty", "top_k", "min_p", "reasoning_effort", "verbosity")
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_PENALTY_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_PENALTY_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    REASONING_EFFORT_FIELD_NUMBER: _ClassVar[int]
    VERBOSITY_FIELD_NUMBER: _ClassVar[int]
    max_tokens: int
    temperature: float
    top_p: float
    seed: int
    presence_penalty: float
    frequency_penalty: float
    top_k: int
    min_p: float
    reasoning_effort: ReasoningEffort
    verbosity: Verbosity
    def __init__(self, max_tokens: _Optional[int] = ..., temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., seed: _Optional[int] = ..., presence_penalty: _Optional[float] = ..., frequency_penalty: _Optional[float] = ..., top_k: _Optional[int] = ..., min_p: _Optional[float] = ..., reasoning_effort: _Optional[_Union[ReasoningEffort, str]] = ..., verbosity: _Optional[_Union[Verbosity, str]] = ...) -> None: ...

class GenerateRequest(_message.Message):
    __slots__ = ("adapter", "conversation", "released_text", "bundle_id", "sampling", "released_stops", "padding", "tools", "tool_use", "released_tool", "parallel_tool_calls", "format")
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    RELEASED_TEXT_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_ID_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    RELEASED_STOPS_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_USE_FIELD_NUMBER: _ClassVar[int]
    RELEASED_TOOL_FIELD_NUMBER: _ClassVar[int]
    PARALLEL_TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    adapter: str
    conversation: ReleasedConversation
    released_text: str
    bundle_id: str
    sampling: GenerateSampling
    released_stops: _containers.RepeatedScalarFieldContainer[str]
    padding: bytes
    tools: _containers.RepeatedCompositeFieldContainer[ReleasedTool]
    tool_use: ToolUse
    released_tool: str
    parallel_tool_calls: bool
    format: ReleasedFormat
    def __init__(self, adapter: _Optional[str] = ..., conversation: _Optional[_Union[ReleasedConversation, _Mapping]] = ..., released_text: _Optional[str] = ..., bundle_id: _Optional[str] = ..., sampling: _Optional[_Union[GenerateSampling, _Mapping]] = ..., released_stops: _Optional[_Iterable[str]] = ..., padding: _Optional[bytes] = ..., tools: _Optional[_Iterable[_Union[ReleasedTool, _Mapping]]] = ..., tool_use: _Optional[_Union[ToolUse, str]] = ..., released_tool: _Optional[str] = ..., parallel_tool_calls: _Optional[bool] = ..., format: _Optional[_Union[ReleasedFormat, _Mapping]] = ...) -> None: ...

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
    __slots__ = ("delta_text", "done", "tool_call", "delta_reasoning", "padding", "number")
    DELTA_TEXT_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    DELTA_REASONING_FIELD_NUMBER: _ClassVar[int]
    PADDING_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    delta_text: str
    done: GenerateDone
    tool_call: ReleasedToolCall
    delta_reasoning: str
    padding: bytes
    number: int
    def __init__(self, delta_text: _Optional[str] = ..., done: _Optional[_Union[GenerateDone, _Mapping]] = ..., tool_call: _Optional[_Union[ReleasedToolCall, _Mapping]] = ..., delta_reasoning: _Optional[str] = ..., padding: _Optional[bytes] = ..., number: _Optional[int] = ...) -> None: ...
