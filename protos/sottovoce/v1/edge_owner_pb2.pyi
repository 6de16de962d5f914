from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class OpenPageRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class OpenPageResponse(_message.Message):
    __slots__ = ("url",)
    URL_FIELD_NUMBER: _ClassVar[int]
    url: str
    def __init__(self, url: _Optional[str] = ...) -> None: ...

class GetSpendingRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetSpendingResponse(_message.Message):
    __slots__ = ("today", "accounts")
    TODAY_FIELD_NUMBER: _ClassVar[int]
    ACCOUNTS_FIELD_NUMBER: _ClassVar[int]
    today: int
    accounts: _containers.RepeatedCompositeFieldContainer[SpendingAccount]
    def __init__(self, today: _Optional[int] = ..., accounts: _Optional[_Iterable[_Union[SpendingAccount, _Mapping]]] = ...) -> None: ...

class SpendingAccount(_message.Message):
    __slots__ = ("day", "kind", "name", "spent", "releases")
    DAY_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SPENT_FIELD_NUMBER: _ClassVar[int]
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    day: int
    kind: str
    name: str
    spent: float
    releases: int
    def __init__(self, day: _Optional[int] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ..., spent: _Optional[float] = ..., releases: _Optional[int] = ...) -> None: ...
