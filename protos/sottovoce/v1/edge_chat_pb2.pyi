from sottovoce.v1 import edge_agent_pb2 as _edge_agent_pb2
from sottovoce.v1 import generation_pb2 as _generation_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ToolCall(_message.Message):
    __slots__ = ("id", "name", "arguments")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    arguments: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., arguments: _Optional[str] = ...) -> None: ...

class ChatTurn(_message.Message):
    __slots__ = ("role", "text", "tool_calls", "tool_call_id")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    role: _generation_pb2.Role
    text: str
    tool_calls: _containers.RepeatedCompositeFieldContainer[ToolCall]
    tool_call_id: str
    def __init__(self, role: _Optional[_Union[_generation_pb2.Role, str]] = ..., text: _Optional[str] = ..., tool_calls: _Optional[_Iterable[_Union[ToolCall, _Mapping]]] = ..., tool_call_id: _Optional[str] = ...) -> None: ...

class ChatTool(_message.Message):
    __slots__ = ("name", "description", "parameters")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    parameters: str
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., parameters: _Optional[str] = ...) -> None: ...

class Sampling(_message.Message):
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
    reasoning_effort: _generation_pb2.ReasoningEffort
    verbosity: _generation_pb2.Verbosity
    def __init__(self, max_tokens: _Optional[int] = ..., temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., seed: _Optional[int] = ..., presence_penalty: _Optional[float] = ..., frequency_penalty: _Optional[float] = ..., top_k: _Optional[int] = ..., min_p: _Optional[float] = ..., reasoning_effort: _Optional[_Union[_generation_pb2.ReasoningEffort, str]] = ..., verbosity: _Optional[_Union[_generation_pb2.Verbosity, str]] = ...) -> None: ...

class ChatFormat(_message.Message):
    __slots__ = ("name", "description", "schema", "strict")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    STRICT_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    schema: str
    strict: bool
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., schema: _Optional[str] = ..., strict: _Optional[bool] = ...) -> None: ...

class ChatRequest(_message.Message):
    __slots__ = ("turns", "model", "privacy", "conversation", "sampling", "stops", "tools", "tool_use", "tool", "parallel_tool_calls", "preview", "words", "agreed", "format")
    TURNS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PRIVACY_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    STOPS_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_USE_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    PARALLEL_TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    PREVIEW_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    AGREED_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    turns: _containers.RepeatedCompositeFieldContainer[ChatTurn]
    model: str
    privacy: _edge_agent_pb2.PrivacyOptions
    conversation: str
    sampling: Sampling
    stops: _containers.RepeatedScalarFieldContainer[str]
    tools: _containers.RepeatedCompositeFieldContainer[ChatTool]
    tool_use: _generation_pb2.ToolUse
    tool: str
    parallel_tool_calls: bool
    preview: bool
    words: bool
    agreed: bool
    format: ChatFormat
    def __init__(self, turns: _Optional[_Iterable[_Union[ChatTurn, _Mapping]]] = ..., model: _Optional[str] = ..., privacy: _Optional[_Union[_edge_agent_pb2.PrivacyOptions, _Mapping]] = ..., conversation: _Optional[str] = ..., sampling: _Optional[_Union[Sampling, _Mapping]] = ..., stops: _Optional[_Iterable[str]] = ..., tools: _Optional[_Iterable[_Union[ChatTool, _Mapping]]] = ..., tool_use: _Optional[_Union[_generation_pb2.ToolUse, str]] = ..., tool: _Optional[str] = ..., parallel_tool_calls: _Optional[bool] = ..., preview: _Optional[bool] = ..., words: _Optional[bool] = ..., agreed: _Optional[bool] = ..., format: _Optional[_Union[ChatFormat, _Mapping]] = ...) -> None: ...

class DepartedToolCall(_message.Message):
    __slots__ = ("id", "released_name", "released_arguments")
    ID_FIELD_NUMBER: _ClassVar[int]
    RELEASED_NAME_FIELD_NUMBER: _ClassVar[int]
    RELEASED_ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    id: str
    released_name: str
    released_arguments: str
    def __init__(self, id: _Optional[str] = ..., released_name: _Optional[str] = ..., released_arguments: _Optional[str] = ...) -> None: ...

class DepartedTurn(_message.Message):
    __slots__ = ("role", "released_text", "tool_calls", "tool_call_id", "words")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    RELEASED_TEXT_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    role: _generation_pb2.Role
    released_text: str
    tool_calls: _containers.RepeatedCompositeFieldContainer[DepartedToolCall]
    tool_call_id: str
    words: _containers.RepeatedCompositeFieldContainer[_edge_agent_pb2.ReleasedWord]
    def __init__(self, role: _Optional[_Union[_generation_pb2.Role, str]] = ..., released_text: _Optional[str] = ..., tool_calls: _Optional[_Iterable[_Union[DepartedToolCall, _Mapping]]] = ..., tool_call_id: _Optional[str] = ..., words: _Optional[_Iterable[_Union[_edge_agent_pb2.ReleasedWord, _Mapping]]] = ...) -> None: ...

class DepartedTool(_message.Message):
    __slots__ = ("released_name", "released_description", "released_parameters")
    RELEASED_NAME_FIELD_NUMBER: _ClassVar[int]
    RELEASED_DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    RELEASED_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    released_name: str
    released_description: str
    released_parameters: str
    def __init__(self, released_name: _Optional[str] = ..., released_description: _Optional[str] = ..., released_parameters: _Optional[str] = ...) -> None: ...

class DepartedFormat(_message.Message):
    __slots__ = ("released_name", "released_description", "released_schema")
    RELEASED_NAME_FIELD_NUMBER: _ClassVar[int]
    RELEASED_DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    RELEASED_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    released_name: str
    released_description: str
    released_schema: str
    def __init__(self, released_name: _Optional[str] = ..., released_description: _Optional[str] = ..., released_schema: _Optional[str] = ...) -> None: ...

class Departed(_message.Message):
    __slots__ = ("turns", "charged", "turns_charged", "level", "mechanism", "policy", "eta", "bundle_id", "tools", "format")
    TURNS_FIELD_NUMBER: _ClassVar[int]
    CHARGED_FIELD_NUMBER: _ClassVar[int]
    TURNS_CHARGED_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    MECHANISM_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    ETA_FIELD_NUMBER: _ClassVar[int]
    BUNDLE_ID_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    turns: _containers.RepeatedCompositeFieldContainer[DepartedTurn]
    charged: float
    turns_charged: int
    level: str
    mechanism: str
    policy: str
    eta: float
    bundle_id: str
    tools: _containers.RepeatedCompositeFieldContainer[DepartedTool]
    format: DepartedFormat
    def __init__(self, turns: _Optional[_Iterable[_Union[DepartedTurn, _Mapping]]] = ..., charged: _Optional[float] = ..., turns_charged: _Optional[int] = ..., level: _Optional[str] = ..., mechanism: _Optional[str] = ..., policy: _Optional[str] = ..., eta: _Optional[float] = ..., bundle_id: _Optional[str] = ..., tools: _Optional[_Iterable[_Union[DepartedTool, _Mapping]]] = ..., format: _Optional[_Union[DepartedFormat, _Mapping]] = ...) -> None: ...

class TurnedBack(_message.Message):
    __slots__ = ("came", "shown", "times")
    CAME_FIELD_NUMBER: _ClassVar[int]
    SHOWN_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    came: str
    shown: str
    times: int
    def __init__(self, came: _Optional[str] = ..., shown: _Optional[str] = ..., times: _Optional[int] = ...) -> None: ...

class Doubtful(_message.Message):
    __slots__ = ("came", "times")
    CAME_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    came: str
    times: int
    def __init__(self, came: _Optional[str] = ..., times: _Optional[int] = ...) -> None: ...

class Answered(_message.Message):
    __slots__ = ("finish_reason", "prompt_tokens", "completion_tokens", "restored", "doubtful", "came", "addresses_kept")
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    RESTORED_FIELD_NUMBER: _ClassVar[int]
    DOUBTFUL_FIELD_NUMBER: _ClassVar[int]
    CAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESSES_KEPT_FIELD_NUMBER: _ClassVar[int]
    finish_reason: _generation_pb2.FinishReason
    prompt_tokens: int
    completion_tokens: int
    restored: _containers.RepeatedCompositeFieldContainer[TurnedBack]
    doubtful: _containers.RepeatedCompositeFieldContainer[Doubtful]
    came: str
    addresses_kept: int
    def __init__(self, finish_reason: _Optional[_Union[_generation_pb2.FinishReason, str]] = ..., prompt_tokens: _Optional[int] = ..., completion_tokens: _Optional[int] = ..., restored: _Optional[_Iterable[_Union[TurnedBack, _Mapping]]] = ..., doubtful: _Optional[_Iterable[_Union[Doubtful, _Mapping]]] = ..., came: _Optional[str] = ..., addresses_kept: _Optional[int] = ...) -> None: ...

class ChatResponse(_message.Message):
    __slots__ = ("departed", "delta_text", "answered", "tool_call", "delta_reasoning")
    DEPARTED_FIELD_NUMBER: _ClassVar[int]
    DELTA_TEXT_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    DELTA_REASONING_FIELD_NUMBER: _ClassVar[int]
    departed: Departed
    delta_text: str
    answered: Answered
    tool_call: ToolCall
    delta_reasoning: str
    def __init__(self, departed: _Optional[_Union[Departed, _Mapping]] = ..., delta_text: _Optional[str] = ..., answered: _Optional[_Union[Answered, _Mapping]] = ..., tool_call: _Optional[_Union[ToolCall, _Mapping]] = ..., delta_reasoning: _Optional[str] = ...) -> None: ...

class CompleteRequest(_message.Message):
    __slots__ = ("text", "model", "privacy", "conversation", "sampling", "stops", "preview", "words", "agreed")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PRIVACY_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    STOPS_FIELD_NUMBER: _ClassVar[int]
    PREVIEW_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    AGREED_FIELD_NUMBER: _ClassVar[int]
    text: str
    model: str
    privacy: _edge_agent_pb2.PrivacyOptions
    conversation: str
    sampling: Sampling
    stops: _containers.RepeatedScalarFieldContainer[str]
    preview: bool
    words: bool
    agreed: bool
    def __init__(self, text: _Optional[str] = ..., model: _Optional[str] = ..., privacy: _Optional[_Union[_edge_agent_pb2.PrivacyOptions, _Mapping]] = ..., conversation: _Optional[str] = ..., sampling: _Optional[_Union[Sampling, _Mapping]] = ..., stops: _Optional[_Iterable[str]] = ..., preview: _Optional[bool] = ..., words: _Optional[bool] = ..., agreed: _Optional[bool] = ...) -> None: ...

class CompleteResponse(_message.Message):
    __slots__ = ("departed", "delta_text", "answered")
    DEPARTED_FIELD_NUMBER: _ClassVar[int]
    DELTA_TEXT_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    departed: Departed
    delta_text: str
    answered: Answered
    def __init__(self, departed: _Optional[_Union[Departed, _Mapping]] = ..., delta_text: _Optional[str] = ..., answered: _Optional[_Union[Answered, _Mapping]] = ...) -> None: ...
