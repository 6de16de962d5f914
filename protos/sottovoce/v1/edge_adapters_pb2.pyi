from sottovoce.v1 import edge_agent_pb2 as _edge_agent_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CancelCustomizationRequest(_message.Message):
    __slots__ = ("id", "adapter")
    ID_FIELD_NUMBER: _ClassVar[int]
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    id: str
    adapter: str
    def __init__(self, id: _Optional[str] = ..., adapter: _Optional[str] = ...) -> None: ...

class CancelCustomizationResponse(_message.Message):
    __slots__ = ("customization",)
    CUSTOMIZATION_FIELD_NUMBER: _ClassVar[int]
    customization: _edge_agent_pb2.Customization
    def __init__(self, customization: _Optional[_Union[_edge_agent_pb2.Customization, _Mapping]] = ...) -> None: ...

class RollBackAdapterRequest(_message.Message):
    __slots__ = ("adapter", "id")
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    adapter: str
    id: str
    def __init__(self, adapter: _Optional[str] = ..., id: _Optional[str] = ...) -> None: ...

class RollBackAdapterResponse(_message.Message):
    __slots__ = ("customization",)
    CUSTOMIZATION_FIELD_NUMBER: _ClassVar[int]
    customization: _edge_agent_pb2.Customization
    def __init__(self, customization: _Optional[_Union[_edge_agent_pb2.Customization, _Mapping]] = ...) -> None: ...

class DeleteAdapterRequest(_message.Message):
    __slots__ = ("adapter", "force")
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    adapter: str
    force: bool
    def __init__(self, adapter: _Optional[str] = ..., force: _Optional[bool] = ...) -> None: ...

class DeleteAdapterResponse(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: int
    def __init__(self, deleted: _Optional[int] = ...) -> None: ...

class Correction(_message.Message):
    __slots__ = ("text", "label")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    text: str
    label: str
    def __init__(self, text: _Optional[str] = ..., label: _Optional[str] = ...) -> None: ...

class KeepCorrectionsRequest(_message.Message):
    __slots__ = ("adapter", "corrections")
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    CORRECTIONS_FIELD_NUMBER: _ClassVar[int]
    adapter: str
    corrections: _containers.RepeatedCompositeFieldContainer[Correction]
    def __init__(self, adapter: _Optional[str] = ..., corrections: _Optional[_Iterable[_Union[Correction, _Mapping]]] = ...) -> None: ...

class KeepCorrectionsResponse(_message.Message):
    __slots__ = ("waiting",)
    WAITING_FIELD_NUMBER: _ClassVar[int]
    waiting: int
    def __init__(self, waiting: _Optional[int] = ...) -> None: ...

class ListCorrectionsRequest(_message.Message):
    __slots__ = ("adapter",)
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    adapter: str
    def __init__(self, adapter: _Optional[str] = ...) -> None: ...

class ListCorrectionsResponse(_message.Message):
    __slots__ = ("correction",)
    CORRECTION_FIELD_NUMBER: _ClassVar[int]
    correction: Correction
    def __init__(self, correction: _Optional[_Union[Correction, _Mapping]] = ...) -> None: ...

class ForgetCorrectionsRequest(_message.Message):
    __slots__ = ("adapter", "text")
    ADAPTER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    adapter: str
    text: str
    def __init__(self, adapter: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class ForgetCorrectionsResponse(_message.Message):
    __slots__ = ("forgotten",)
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    forgotten: int
    def __init__(self, forgotten: _Optional[int] = ...) -> None: ...
