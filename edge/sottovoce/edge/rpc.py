"""Errors on the wire: exceptions become ``google.rpc.Status`` and come back.

Both servers and both clients use this module, so an error raised in the cloud
reads the same on the device, fix included. Unexpected exceptions become INTERNAL
without their text, because a traceback may quote what a user typed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any, cast

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_status import rpc_status

from sottovoce.edge import errors

__all__ = ["RETRY_SECONDS", "ErrorInterceptor", "from_rpc_error", "to_status", "wrapped"]

DOMAIN = "sottovoce"
RETRY_SECONDS = 2

_log = logging.getLogger(__name__)
_BY_NAME: dict[str, type[errors.SottovoceError]] = {
    name: getattr(errors, name) for name in errors.__all__
}
_BY_CODE: dict[grpc.StatusCode, type[errors.SottovoceError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: errors.InvalidInput,
    grpc.StatusCode.FAILED_PRECONDITION: errors.NotReady,
    grpc.StatusCode.NOT_FOUND: errors.NotFound,
    grpc.StatusCode.RESOURCE_EXHAUSTED: errors.QuotaExceeded,
    grpc.StatusCode.UNAVAILABLE: errors.Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: errors.Unavailable,
    grpc.StatusCode.UNAUTHENTICATED: errors.Unauthenticated,
    grpc.StatusCode.DATA_LOSS: errors.DataLoss,
    grpc.StatusCode.OUT_OF_RANGE: errors.OutOfRange,
}


def to_status(error: errors.SottovoceError) -> status_pb2.Status:
    """The error as a ``google.rpc.Status`` with details by its kind."""
    details: list[Any] = [
        error_details_pb2.ErrorInfo(
            reason=type(error).__name__,
            domain=DOMAIN,
            metadata={**error.metadata, "fix": error.fix, "subject": error.subject},
        )
    ]
    if isinstance(error, errors.InvalidInput):
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=error.subject, description=error.problem
        )
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    elif isinstance(error, errors.NotReady):
        unmet = error_details_pb2.PreconditionFailure.Violation(
            type=type(error).__name__, subject=error.subject, description=error.problem
        )
        details.append(error_details_pb2.PreconditionFailure(violations=[unmet]))
    elif isinstance(error, errors.NotFound):
        details.append(error_details_pb2.ResourceInfo(resource_name=error.subject))
    elif isinstance(error, errors.QuotaExceeded):
        over = error_details_pb2.QuotaFailure.Violation(
            subject=error.subject, description=error.problem
        )
        details.append(error_details_pb2.QuotaFailure(violations=[over]))
    elif isinstance(error, errors.Unavailable):
        delay = duration_pb2.Duration(seconds=RETRY_SECONDS)
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    packed = []
    for detail in details:
        box = any_pb2.Any()
        box.Pack(detail)
        packed.append(box)
    code = cast(int, getattr(code_pb2, error.code.name))
    return status_pb2.Status(code=code, message=str(error), details=packed)


def from_rpc_error(error: grpc.RpcError, *, peer: str) -> errors.SottovoceError:
    """The error a server of ours raised, or the nearest kind for a transport's.

    Args:
        error: what a stub raised.
        peer: who was called, for the message ("the cloud at host:port").
    """
    call = cast(grpc.Call, error)
    code = call.code()
    status = rpc_status.from_call(call)
    info = error_details_pb2.ErrorInfo()
    for detail in status.details if status is not None else ():
        if detail.Unpack(info) and info.domain == DOMAIN and info.reason in _BY_NAME:
            metadata = dict(info.metadata)
            fix, subject = metadata.pop("fix", ""), metadata.pop("subject", "")
            problem = (call.details() or "").removesuffix(f" ({fix})")
            return _BY_NAME[info.reason](problem, fix=fix, subject=subject, metadata=metadata)
    if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
        return errors.Unavailable(
            f"{peer} does not answer", fix="check that it runs and that the address is right"
        )
    kind = _BY_CODE.get(code, errors.SottovoceError)
    return kind(f"{peer} answered {code.name}: {call.details()}")


def _abort(context: grpc.ServicerContext, error: BaseException) -> None:
    if not isinstance(error, errors.SottovoceError):
        # Only the kind and the place: the message could hold user text.
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "?"
        _log.error("unexpected %s at %s", type(error).__name__, where)
        error = errors.SottovoceError(f"internal error ({type(error).__name__})")
    context.abort_with_status(rpc_status.to_status(to_status(error)))


def _aborted(context: grpc.ServicerContext) -> bool:
    """Whether the method set a status by itself, as ``context.abort`` does before it raises."""
    return cast(Any, context).code() is not None  # in grpcio, not yet in its type stubs


def wrapped(
    handler: grpc.RpcMethodHandler[Any, Any],
    unary: Callable[[Callable[..., Any]], Callable[..., Any]],
    stream: Callable[[Callable[..., Iterator[Any]]], Callable[..., Iterator[Any]]],
) -> grpc.RpcMethodHandler[Any, Any]:
    """The handler with its method wrapped by ``unary`` if it answers once, else by ``stream``."""
    kinds: dict[tuple[bool, bool], tuple[Any, Any]] = {
        (False, False): (grpc.unary_unary_rpc_method_handler, handler.unary_unary),
        (False, True): (grpc.unary_stream_rpc_method_handler, handler.unary_stream),
        (True, False): (grpc.stream_unary_rpc_method_handler, handler.stream_unary),
        (True, True): (grpc.stream_stream_rpc_method_handler, handler.stream_stream),
    }
    make, method = kinds[handler.request_streaming, handler.response_streaming]
    wrap: Callable[[Any], Any] = stream if handler.response_streaming else unary
    return make(  # type: ignore[no-any-return]
        wrap(method),
        request_deserializer=handler.request_deserializer,
        response_serializer=handler.response_serializer,
    )


class ErrorInterceptor(grpc.ServerInterceptor):
    """Turns exceptions of any servicer method into status with details."""

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler[Any, Any] | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = continuation(handler_call_details)
        if handler is None:
            return None

        def unary(method: Callable[[Any, grpc.ServicerContext], Any]) -> Callable[..., Any]:
            def call(request: Any, context: grpc.ServicerContext) -> Any:
                try:
                    return method(request, context)
                except Exception as error:
                    if _aborted(context):
                        raise
                    return _abort(context, error)

            return call

        def stream(
            method: Callable[[Any, grpc.ServicerContext], Iterator[Any]],
        ) -> Callable[..., Any]:
            def call(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
                try:
                    yield from method(request, context)
                except Exception as error:
                    if _aborted(context):
                        raise
                    _abort(context, error)

            return call

        return wrapped(handler, unary, stream)
