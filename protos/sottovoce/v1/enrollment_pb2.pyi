import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TokenScope(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOKEN_SCOPE_UNSPECIFIED: _ClassVar[TokenScope]
    TOKEN_SCOPE_ALL: _ClassVar[TokenScope]
    TOKEN_SCOPE_TRAIN: _ClassVar[TokenScope]
    TOKEN_SCOPE_PREDICT: _ClassVar[TokenScope]
TOKEN_SCOPE_UNSPECIFIED: TokenScope
TOKEN_SCOPE_ALL: TokenScope
TOKEN_SCOPE_TRAIN: TokenScope
TOKEN_SCOPE_PREDICT: TokenScope

class RedeemCodeRequest(_message.Message):
    __slots__ = ("code", "token_sha256")
    CODE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_SHA256_FIELD_NUMBER: _ClassVar[int]
    code: str
    token_sha256: bytes
    def __init__(self, code: _Optional[str] = ..., token_sha256: _Optional[bytes] = ...) -> None: ...

class RedeemCodeResponse(_message.Message):
    __slots__ = ("tenant", "name", "scope", "end_time")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    name: str
    scope: TokenScope
    end_time: _timestamp_pb2.Timestamp
    def __init__(self, tenant: _Optional[str] = ..., name: _Optional[str] = ..., scope: _Optional[_Union[TokenScope, str]] = ..., end_time: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...
