"""Errors on the wire: exceptions become ``google.rpc.Status`` and come back.

Both servers and both clients use this module. So an error raised in the cloud reads the same on the
device, fix included. Unexpected exceptions become INTERNAL without their text, because a traceback
may quote user text.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from sottovoce.core import errors
from sottovoce.core.rpc.channels import Handler, Interceptor, asked, wrapped

DOMAIN = "sottovoce"
"""The domain of the reasons in `google.rpc.ErrorInfo`."""
RETRY_SECONDS = 2

_LONGEST = 800
"""The most bytes of a sentence on the wire.

Errors travel in the trailers of HTTP/2, several times over and percent-encoded. Peers bound
trailers at 8 KiB, so a longer sentence would arrive as another error.
"""

_log = logging.getLogger(__name__)
_BY_REASON: dict[str, type[errors.SottovoceError]] = {
    kind.reason: kind for kind in (getattr(errors, name) for name in errors.__all__)
}
_BY_CODE: dict[grpc.StatusCode, type[errors.SottovoceError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: errors.InvalidInput,
    grpc.StatusCode.FAILED_PRECONDITION: errors.NotReady,
    grpc.StatusCode.NOT_FOUND: errors.NotFound,
    grpc.StatusCode.RESOURCE_EXHAUSTED: errors.QuotaExceeded,
    grpc.StatusCode.UNAUTHENTICATED: errors.Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: errors.PermissionDenied,
    grpc.StatusCode.DATA_LOSS: errors.DataLoss,
    grpc.StatusCode.OUT_OF_RANGE: errors.OutOfRange,
}
_GONE = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,  # not by us: a server with too many calls ends one so
)

_BROKEN = (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL)
"""gRPC's own messages, without our details, about frames and messages that it cannot read."""


def to_status(error: errors.SottovoceError) -> status_pb2.Status:
    """Return the error as a ``google.rpc.Status`` with details by its kind.

    Texts are cut to fit into a call's trailers: a problem may quote labels, and a subject may quote
    the caller's input.
    """
    problem, fix, subject = (
        _cut(error.problem),
        _cut(error.fix_for_callers),
        _cut(error.subject, 256),
    )
    details: list[Any] = [
        error_details_pb2.ErrorInfo(
            reason=error.reason,
            domain=DOMAIN,
            metadata={**error.metadata, "fix": fix, "subject": subject},
        )
    ]
    if isinstance(error, errors.InvalidInput):
        violation = error_details_pb2.BadRequest.FieldViolation(field=subject, description=problem)
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    elif isinstance(error, errors.NotReady):
        unmet = error_details_pb2.PreconditionFailure.Violation(
            type=error.reason, subject=subject, description=problem
        )
        details.append(error_details_pb2.PreconditionFailure(violations=[unmet]))
    elif isinstance(error, errors.NotFound):
        details.append(error_details_pb2.ResourceInfo(resource_name=subject))
    elif isinstance(error, errors.QuotaExceeded):
        over = error_details_pb2.QuotaFailure.Violation(subject=subject, description=problem)
        details.append(error_details_pb2.QuotaFailure(violations=[over]))
    elif isinstance(error, errors.Unavailable):
        delay = duration_pb2.Duration(seconds=retry_seconds(error))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    packed = []
    for detail in details:
        box = any_pb2.Any()
        box.Pack(detail)
        packed.append(box)
    message = f"{problem} ({fix})" if fix else problem
    return status_pb2.Status(code=error.code, message=message, details=packed)


def retry_seconds(error: errors.SottovoceError) -> int:
    """Return the seconds until a repeated request may succeed.

    The error's metadata may name them, and may come from a peer.
    """
    named = error.metadata.get("retry_after", "")
    return int(named) if re.fullmatch("[0-9]{1,4}", named) else RETRY_SECONDS


def _cut(text: str, most: int = _LONGEST) -> str:
    data = text.encode()
    return text if len(data) <= most else data[:most].decode(errors="ignore") + "..."


def from_rpc_error(error: grpc.RpcError, *, peer: str) -> errors.SottovoceError:
    """Return the error that our server raised, or the nearest kind for a transport error.

    Args:
        error: the exception from the stub.
        peer: the server, for the message ("the cloud at host:port").
    """
    call = cast(grpc.Call, error)
    code = call.code()
    try:
        status = rpc_status.from_call(call)
    except ValueError:  # details that contradict the code: not from a server of ours
        status = None
    info = error_details_pb2.ErrorInfo()
    for detail in status.details if status is not None else ():
        if detail.Unpack(info) and info.domain == DOMAIN and info.reason in _BY_REASON:
            metadata = dict(info.metadata)
            fix, subject = metadata.pop("fix", ""), metadata.pop("subject", "")
            problem = (call.details() or "").removesuffix(f" ({fix})")
            return _BY_REASON[info.reason](problem, fix=fix, subject=subject, metadata=metadata)
    if code in _GONE:
        return errors.Unavailable(
            f"{peer} does not answer", fix="check that it runs and that the address is right"
        )
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return errors.ConfigError(
            f"{peer} speaks gRPC, but is no server of Sottovoce, or one of another version "
            "(UNIMPLEMENTED)",
            fix="check host and port; if they are right, bring both sides to the same version",
            subject="address",
        )
    if code in _BROKEN:
        return errors.Unavailable(
            f"what {peer} sent arrived damaged, or was never an answer",
            fix="try again; if it stays so, see what stands between the two, and use TLS",
        )
    kind = _BY_CODE.get(code, errors.SottovoceError)
    return kind(
        f"{peer} answered {code.name}: {call.details()}",
        fix="try again; if it stays so, see what stands between the two",
    )


def _abort(context: grpc.ServicerContext, error: BaseException) -> None:
    if not isinstance(error, errors.SottovoceError):
        _log.error("unexpected %s", kind_and_place(error))
        error = errors.SottovoceError(f"internal error ({type(error).__name__})")
    context.abort_with_status(rpc_status.to_status(to_status(error)))


def kind_and_place(error: BaseException) -> str:
    """Return the loggable part of an unexpected error; its message could hold user text."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "?"
    return f"{type(error).__name__} at {where}"


def _ended(context: grpc.ServicerContext, error: Exception) -> bool:
    """Return whether the status is already set.

    The method may have set it, as ``context.abort`` does before it raises. Or the caller has gone,
    and so reading its requests raised.
    """
    gone = isinstance(error, grpc.RpcError) and not context.is_active()
    return gone or cast(Any, context).code() is not None  # in grpcio, not yet in its type stubs


def _say_unimplemented(context: grpc.ServicerContext, error: Exception) -> None:
    """Answer UNIMPLEMENTED where a service declares a method but lacks it.

    Otherwise the method's exception would be logged with a traceback, at every call.
    """
    if isinstance(error, NotImplementedError):
        context.abort(grpc.StatusCode.UNIMPLEMENTED, str(error))


class ErrorInterceptor(Interceptor):
    """Turns exceptions of any servicer method into a status with details.

    It also answers requests that could not be parsed, in place of the method.
    """

    def around(self, handler: Handler, service: str, method: str) -> Handler:
        read = partial(map, asked) if handler.request_streaming else asked

        def unary(answer: Callable[[Any, grpc.ServicerContext], Any]) -> Callable[..., Any]:
            def call(request: Any, context: grpc.ServicerContext) -> Any:
                try:
                    return answer(read(request), context)
                except Exception as error:
                    if _ended(context, error):
                        _say_unimplemented(context, error)
                        raise
                    return _abort(context, error)

            return call

        def stream(
            answer: Callable[[Any, grpc.ServicerContext], Iterator[Any]],
        ) -> Callable[..., Any]:
            def call(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
                try:
                    yield from answer(read(request), context)
                except Exception as error:
                    if _ended(context, error):
                        _say_unimplemented(context, error)
                        raise
                    _abort(context, error)

            return call

        return wrapped(handler, unary, stream)
