"""Every error that an app or an operator can meet, and remedies for shared faults.

Each class fixes a gRPC code, a process exit code and a reason. Programs in other languages may rely
on these, whatever the class's name. Each instance names the problem and the fix, and never quotes
the user's text. Code that both programs run gives a `Remedy`: a device's owner and a provider fix
the same fault by different commands.

    SottovoceError                      INTERNAL             exit 1
    ├── InvalidInput                    INVALID_ARGUMENT     exit 2
    ├── NotReady                        FAILED_PRECONDITION  exit 3
    │   └── BundleMismatch
    ├── NotFound                        NOT_FOUND            exit 4
    ├── QuotaExceeded                   RESOURCE_EXHAUSTED   exit 5
    ├── Unavailable                     UNAVAILABLE          exit 6
    │   └── Overloaded                  RESOURCE_EXHAUSTED   exit 6
    ├── Unauthenticated                 UNAUTHENTICATED      exit 7
    │   └── PermissionDenied            PERMISSION_DENIED    exit 7
    ├── DataLoss                        DATA_LOSS            exit 8
    ├── OutOfRange                      OUT_OF_RANGE         exit 9
    └── ConfigError                     FAILED_PRECONDITION  exit 78
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum, IntEnum
from typing import ClassVar

__all__ = [  # the kinds alone
    "BundleMismatch",
    "ConfigError",
    "DataLoss",
    "InvalidInput",
    "NotFound",
    "NotReady",
    "OutOfRange",
    "Overloaded",
    "PermissionDenied",
    "QuotaExceeded",
    "SottovoceError",
    "Unauthenticated",
    "Unavailable",
]


class Code(IntEnum):
    """The codes of ``google.rpc.Code`` that are raised here.

    They are repeated so that an app without gRPC need not install it for the names.
    """

    INVALID_ARGUMENT = 3
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    OUT_OF_RANGE = 11
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class Side(IntEnum):
    """The side that runs: the device or the cloud."""

    DEVICE = 0
    PROVIDER = 1


class Remedy(Enum):
    """The fix of a fault that either side can meet: for a device's owner, and for the provider."""

    GET_BUNDLE = (
        "run `pip install 'sottovoce-edge[en]'`, or fetch a cloud's with `sotto pull HOST:PORT`",
        "build one with `sotto-cloud build-bundle --out FOLDER`, or name another folder or id",
    )
    RESTORE_BUNDLE = (
        "fetch it again with `sotto pull`",
        "build it again with `sotto-cloud build-bundle`, or bring its files back",
    )
    MATCH_VERSIONS = (
        "update sottovoce-edge, or run `sotto pull` for a bundle of the same version",
        "build it again with this version's `sotto-cloud build-bundle`",
    )
    REPLACE_BUNDLE = (
        "ask the provider, or pull from another cloud",
        "build it again with `sotto-cloud build-bundle`",
    )
    SIGN_BUNDLE = (
        "run `sotto pull` again; if it happens again, ask the provider",
        "sign it again with `sotto-cloud build-bundle --key FILE`",
    )
    GET_TAGGER = (
        "run `sotto pull` for a bundle that has one",
        "train one with `sotto-models train-tagger`, or name another folder",
    )
    GET_NAMES = (
        "run `sotto pull` for a bundle that has one",
        "train one with `sotto-models train-names`, or name another folder",
    )
    GET_DENOISER = (
        "run `sotto pull` for a bundle that has one",
        "train one with `sotto-models train-denoiser`",
    )
    BUILD_ENCODER = (
        "ask the provider to build it with `sotto-cloud build-bundle --encoder`, or have the cloud "
        "answer with --where cloud",
        "build it with `sotto-cloud build-bundle --encoder`",
    )
    GET_ENCODER = (
        "fetch it with `sotto pull --encoder`, or have the cloud answer with --where cloud",
        "build it with `sotto-cloud build-bundle --encoder`",
    )
    RESTORE_ENCODER = (
        "fetch it again with `sotto pull --encoder`",
        "build it again with `sotto-cloud build-bundle --encoder`",
    )
    BUILD_FULL_FINDER = (
        "ask the provider to build the bundle with `sotto-cloud build-bundle --encoder`, or set "
        'privacy.finder = "small"',
        "build it with `sotto-cloud build-bundle --encoder`, over the default backbone",
    )
    GET_FULL_FINDER = (
        'fetch it with `sotto pull --encoder`, or set privacy.finder = "small"',
        "build it with `sotto-cloud build-bundle --encoder`",
    )
    RESTORE_FULL_FINDER = (
        "fetch it again with `sotto pull --encoder`, use versions of the device and of the bundle "
        'that fit, or set privacy.finder = "small"',
        "build it again with this version's `sotto-cloud build-bundle --encoder`",
    )
    OTHER_PLACE = (
        "let this user write there, or name another place: SOTTO_CONFIG (settings), "
        "SOTTO_AGENT_STATE (state), SOTTO_BUNDLE_PATH (bundles)",
        "let this user write there, or name another place with --state",
    )
    RESTORE_ADAPTER = ("fetch it again with `sotto fetch`", "train it again")
    REPLACE_ADAPTER = (
        "customise again, or go back with `sotto fetch --roll-back`",
        "train it again",
    )


_side = Side.DEVICE


@contextmanager
def speaking_to(side: Side) -> Iterator[None]:
    """During the block, this process's errors name the fix for ``side``."""
    global _side
    before, _side = _side, side
    try:
        yield
    finally:
        _side = before


class SottovoceError(Exception):
    """An error with a problem and its fix.

    Args:
        problem: one sentence for a person; no user text in it.
        fix: what to do about it, imperative; may be empty. Of a `Remedy`, what the side whose
            program runs can do.
        subject: the field, resource or quota concerned, for programs.
        metadata: further facts for programs (``next_sequence``, say).
    """

    code: ClassVar[Code] = Code.INTERNAL
    exit_code: ClassVar[int] = 1
    reason: ClassVar[str] = "INTERNAL"

    def __init__(
        self,
        problem: str,
        *,
        fix: str | Remedy = "",
        subject: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        self.fix = fix.value[_side] if isinstance(fix, Remedy) else fix
        self.fix_for_callers = self.fix
        """The fix for a caller on the other side, who has none of this side's commands."""
        if isinstance(fix, Remedy) and _side is Side.PROVIDER:
            self.fix_for_callers = f"ask the provider to {self.fix}"
        super().__init__(f"{problem} ({self.fix})" if self.fix else problem)
        self.problem = problem
        self.subject = subject
        self.metadata = dict(metadata or {})


class InvalidInput(SottovoceError):
    """The request itself is wrong; ``subject`` names the field."""

    code = Code.INVALID_ARGUMENT
    exit_code = 2
    reason = "INVALID_INPUT"


class NotReady(SottovoceError):
    """Something must be done first; ``subject`` names it."""

    code = Code.FAILED_PRECONDITION
    exit_code = 3
    reason = "NOT_READY"


class BundleMismatch(NotReady):
    """Two sides hold different bundles, or a bundle is for another backbone."""

    reason = "BUNDLE_MISMATCH"


class NotFound(SottovoceError):
    """An unknown adapter, job, bundle or level; ``subject`` is its name."""

    code = Code.NOT_FOUND
    exit_code = 4
    reason = "NOT_FOUND"


class QuotaExceeded(SottovoceError):
    """A limit someone set is reached; ``subject`` names the limit."""

    code = Code.RESOURCE_EXHAUSTED
    exit_code = 5
    reason = "QUOTA_EXCEEDED"


class Unavailable(SottovoceError):
    """The other side cannot be reached now; a retry may help."""

    code = Code.UNAVAILABLE
    exit_code = 6
    reason = "UNAVAILABLE"


class Overloaded(Unavailable):
    """The other side is overloaded now; the same message may be sent again."""

    code = Code.RESOURCE_EXHAUSTED
    reason = "OVERLOADED"


class Unauthenticated(SottovoceError):
    """The tenant is missing or unknown, or its token is wrong, revoked or expired."""

    code = Code.UNAUTHENTICATED
    exit_code = 7
    reason = "UNAUTHENTICATED"


class PermissionDenied(Unauthenticated):
    """A known caller lacks permission; ``subject`` names what forbids it."""

    code = Code.PERMISSION_DENIED
    reason = "PERMISSION_DENIED"


class DataLoss(SottovoceError):
    """A file is truncated, altered or unreadable."""

    code = Code.DATA_LOSS
    exit_code = 8
    reason = "DATA_LOSS"


class OutOfRange(SottovoceError):
    """An offset or sequence number the other side cannot accept."""

    code = Code.OUT_OF_RANGE
    exit_code = 9
    reason = "OUT_OF_RANGE"


class ConfigError(SottovoceError):
    """The configuration file or an environment override is wrong."""

    code = Code.FAILED_PRECONDITION
    exit_code = 78
    reason = "CONFIG_ERROR"
