"""Adapters on the device: fetched from the cloud, and run on the original text.

They run over the bundle's encoder. A prediction on the device reveals nothing: no text, no label,
no time of the request. So `predict` must not use the cloud, the ledger or the noise. Only `fetch`
calls the cloud, when the owner asks for it and never because of a text.
"""

from __future__ import annotations

import logging
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.bundle.manifest import sha256
from sottovoce.core.errors import (
    DataLoss,
    InvalidInput,
    NotFound,
    NotReady,
    OutOfRange,
    QuotaExceeded,
    SottovoceError,
    Unavailable,
)
from sottovoce.core.platform import memory
from sottovoce.core.platform.files import disk
from sottovoce.core.platform.threads import join
from sottovoce.core.rpc.limits import LARGEST_ADAPTER
from sottovoce.core.text.words import check_text
from sottovoce.edge.client.cloud import Cloud
from sottovoce.edge.client.retry import download_with_retry
from sottovoce.edge.state.adapters import FOLLOWED, AdapterFolder, is_version
from sottovoce.edge.state.outbox import BY_ID, OpaqueIds, Outbox
from sottovoce.edge.tasks.engine import Engine
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training

if TYPE_CHECKING:
    from sottovoce.core.bundle.adapter import LocalAdapter
    from sottovoce.core.bundle.encoder import Encoder

CONFIGURED = {
    "device": agent.WHERE_DEVICE,
    "cloud": agent.WHERE_CLOUD,
    "auto": agent.WHERE_AUTO,
}


def who_answers(asked: agent.Where, configured: str) -> agent.Where:
    """Return where to answer: the device, the cloud, or either.

    Args:
        asked: the request's choice; unspecified leaves it to the configuration.
        configured: "device", "cloud" or "auto". "device" is a limit; the others are defaults.
    """
    where = asked or CONFIGURED[configured]
    if where not in CONFIGURED.values():  # an app may be newer than this device
        raise InvalidInput(
            "`where` names nobody that could answer",
            fix="ask for the device, the cloud or auto",
            subject="where",
        )
    if configured != "device":
        return where
    if where == agent.WHERE_CLOUD:
        raise NotReady(
            "the owner of this device lets nobody else answer",
            fix='set where = "auto" under [predict] in the configuration to allow it',
            subject="predict.where",
        )
    return agent.WHERE_DEVICE


MOST_FOLLOWED: Final = 32
_ROOM: Final = 2 * LARGEST_ADAPTER
"""Bytes of adapters kept in memory."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A fetched version of an adapter.

    Attributes:
        encoder_bytes: the size of the encoder that was fetched with it, or 0.
    """

    version: str
    bytes: int
    up_to_date: bool
    encoder_bytes: int


@dataclass(frozen=True, slots=True)
class _Found:
    """An adapter: its names, its folder, and whether only this device knows it."""

    names: OpaqueIds
    folder: AdapterFolder
    local: bool


class Home:
    """Answers with adapters that were fetched.

    Args:
        where: where texts may be answered, see `who_answers`: "device", "cloud" or "auto".
    """

    def __init__(
        self,
        engine: Engine,
        cloud: Cloud,
        outbox: Outbox,
        folder: Path,
        where: str,
    ) -> None:
        self._engine = engine
        self._cloud = cloud
        self._outbox = outbox
        self.folder = folder
        self._where = where
        self._lock = threading.Lock()
        self._opened: tuple[Bundle, Encoder] | None = None
        self._adapters: dict[Path, LocalAdapter] = {}

    def answering(
        self, request: agent.PredictRequest
    ) -> Callable[[], agent.PredictResponse] | None:
        """Return a function that classifies one text; None if the cloud is to answer.

        The function raises InvalidInput if the input is not a text, and NotReady if the adapter or
        encoder was not fetched. It raises DataLoss if one is damaged, and BundleMismatch if they do
        not fit together.

        Raises:
            InvalidInput: the request names no adapter, or an unknown place to answer.
            NotFound: no adapter of that name was customised here.
            NotReady: the owner forbids the cloud.
            DataLoss: the notes on the adapter were lost.
        """
        if not request.adapter:
            raise InvalidInput(
                "no adapter is named", fix="name one that was customised", subject="adapter"
            )
        where = who_answers(request.where, self._where)
        try:
            found = self._find(request.adapter)
        except NotFound:
            if where == agent.WHERE_CLOUD:
                return None  # the cloud path reports it
            raise
        if found.local and where == agent.WHERE_CLOUD:
            raise _only_here()
        here = found.local or where == agent.WHERE_DEVICE
        # If an adapter is here but cannot run, that is an error. It must not send the text instead.
        if here or (where == agent.WHERE_AUTO and found.folder.current is not None):
            return lambda: self._predict(request.text, found)
        return None

    def _predict(self, text: str, found: _Found) -> agent.PredictResponse:
        check_text(text)
        file = found.folder.current
        if file is None:
            raise NotReady(
                "this adapter is not on the device",
                fix="bring it home with `sotto fetch`, or have the cloud answer with --where cloud",
                subject="adapter",
            )
        encoder = self.encoder()
        adapter = self._adapter(found.folder, file)
        adapter.check(encoder.shape)
        scores = [
            agent.LabelScore(label=found.names.label(label), score=score)
            for label, score in adapter.scores(encoder, text)
        ]
        return agent.PredictResponse(
            label=scores[0].label, scores=scores, answered=agent.WHERE_DEVICE
        )

    def fetch(
        self,
        name: str,
        *,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Fetched:
        """Fetch the newest version of an adapter and put it in use.

        An adapter answers over the bundle's encoder. So the encoder is fetched too, if the device
        lacks it. The previous version answers until both are here, and also if anything fails.

        Raises:
            NotFound: the adapter exists neither here nor in the cloud.
            NotReady: the provider does not serve it, devices cannot run it, another fetch is
                running, or the encoder is missing and cannot be fetched.
            BundleMismatch: this device cannot run it with its bundle.
            DataLoss: the received bytes are not the promised ones; they are removed.
            Unavailable: the connection broke repeatedly; the received bytes are kept.
        """
        found = self._find(name)
        if found.local:
            raise _only_here()
        names, folder = found.names, found.folder
        self._check_encoder()
        with folder.alone(), disk(self.folder):
            file, arrived = self._download(names, folder, progress)
            adapter = None if arrived is None else self._verify(names, arrived, file.sha256)
            brought = self._bring_encoder(progress)
            if arrived is not None and adapter is not None:
                with _removed_if_refused(arrived):
                    adapter.check(self.encoder().shape)
                folder.install(arrived, file.sha256)
                folder.prune()
        return Fetched(file.sha256, file.bytes, arrived is None, brought)

    def follow(self, name: str, on: bool) -> None:
        """Switch automatic fetching of an adapter's new versions on or off.

        Raises:
            NotFound: there is no such adapter.
            QuotaExceeded: too many adapters are followed, or the disk is full.
        """
        folder = self._find(name).folder
        if on and not folder.followed and len(self.followed()) >= MOST_FOLLOWED:
            raise QuotaExceeded(
                f"{MOST_FOLLOWED} adapters are followed, which is the limit",
                fix="end one with `sotto fetch NAME --no-follow`",
                subject="adapters",
            )
        folder.follow(on)

    def followed(self) -> dict[str, str]:
        """Return the names of followed adapters, by their names in the cloud."""
        marked = {file.parent.name for file in self.folder.glob(f"*/{FOLLOWED}")}
        if not marked:
            return {}
        named = {record.adapter_id: record.adapter for record in self._outbox.all()}
        names = {theirs: named.get(theirs, BY_ID + theirs) for theirs in marked}
        # Skip a name that now belongs to another adapter.
        return {t: name for t, name in names.items() if self._find(name).names.adapter_id == t}

    def versions(self, name: str) -> list[tuple[str, bool]]:
        """Return an adapter's versions, newest first, each with whether it is in use."""
        folder = self._find(name).folder
        current = folder.current
        return [(v, current is not None and v == current.stem) for v in folder.versions()]

    def roll_back(self, name: str) -> str:
        """Replace the version in use by the previous version; see `AdapterFolder.roll_back`."""
        folder = self._find(name).folder
        with folder.alone():
            return folder.roll_back()

    def _check_encoder(self) -> None:
        """Refuse at once if no adapter could answer: the encoder is neither here nor offered."""
        try:
            self.encoder()
        except NotReady:
            if not self._engine.current().bundle.manifest.optional:
                raise
            self._engine.check_pulled()

    def _bring_encoder(self, progress: Callable[[int, int], None]) -> int:
        """Fetch the encoder of the bundle in use, if it is not here; return the bytes fetched."""
        try:
            self.encoder()
        except NotReady:
            brought = self._engine.fetch_encoder(self._cloud, progress)
            self.encoder()
            return brought
        return 0

    def _download(
        self,
        names: OpaqueIds,
        folder: AdapterFolder,
        progress: Callable[[int, int], None],
    ) -> tuple[training.AdapterFile, Path | None]:
        """Download the newest version; return its description, and its file if it is new."""

        def size() -> int:
            return _size(folder.partial()[0])

        def receive() -> tuple[training.AdapterFile, Path | None]:
            there = size()
            try:
                return self._receive(names, folder, progress)
            except OutOfRange:  # more than the cloud ever sent: start again
                if not there:
                    raise
                folder.partial()[0].unlink(missing_ok=True)
                return self._receive(names, folder, progress)

        return download_with_retry(receive, size)

    def _receive(
        self, names: OpaqueIds, folder: AdapterFolder, progress: Callable[[int, int], None]
    ) -> tuple[training.AdapterFile, Path | None]:
        partial, begun = folder.partial()
        current = folder.current
        offset = _size(partial)
        held = current.stem if current is not None and folder.intact(current) else ""
        if held and not begun:
            begun, offset = held, _size(folder.file(held))
        request = training.GetAdapterRequest(adapter=names.adapter_id, sha256=begun, offset=offset)
        parts = self._cloud.get_adapter(request)
        file = next(parts, training.GetAdapterResponse()).file
        if not is_version(file.sha256) or not 0 < file.bytes <= LARGEST_ADAPTER:
            raise DataLoss("the cloud names no adapter that a device takes", fix="ask the provider")
        if file.sha256 == held:
            return file, None
        arriving = folder.begun(file.sha256)
        if partial != arriving:
            partial.unlink(missing_ok=True)
        descriptor = os.open(arriving, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "ab") as out:
            for part in parts:
                if not part.chunk:
                    raise DataLoss("the cloud sends parts without bytes", fix="ask the provider")
                if out.tell() + len(part.chunk) > file.bytes:
                    break  # the hash will not fit
                out.write(part.chunk)
                progress(out.tell(), file.bytes)
            out.flush()
            os.fsync(out.fileno())
        if _size(arriving) < file.bytes:
            raise Unavailable("the cloud ended the file early", fix="run `sotto fetch` again")
        return file, arriving

    def _verify(self, names: OpaqueIds, arrived: Path, version: str) -> LocalAdapter:
        """Read a download, and remove it unless it is as promised and fits the bundle."""
        from sottovoce.core.bundle.adapter import LocalAdapter

        with _removed_if_refused(arrived):
            if sha256(arrived) != version:
                raise DataLoss(
                    f"the adapter's file {version}.safetensors arrived altered and was removed",
                    fix="run `sotto fetch` again; if it happens again, ask the provider",
                    subject="adapter",
                )
            adapter = LocalAdapter.read(arrived)
            adapter.check_backbone(self._engine.current().bundle.manifest.backbone.sha256)
            for label in adapter.labels:
                names.label(label)
            return adapter

    def _find(self, name: str) -> _Found:
        names, trained = self._outbox.adapter(name)
        theirs = names.adapter_id
        if trained:
            local = self._outbox.get(trained).local
        else:  # named by its id
            local = any(one.local and one.adapter_id == theirs for one in self._outbox.all())
        return _Found(names, AdapterFolder(self.folder, theirs), local)

    def encoder(self) -> Encoder:
        """Return the encoder of the bundle in use.

        Raises:
            NotReady: it was not fetched.
            DataLoss: it is damaged.
        """
        bundle = self._engine.current().bundle
        self._engine.check_encoder_package()
        with self._lock:
            if self._opened is None or self._opened[0] is not bundle:
                self._opened = bundle, _open_encoder(bundle)
            return self._opened[1]

    def _adapter(self, folder: AdapterFolder, file: Path) -> LocalAdapter:
        from sottovoce.core.bundle.adapter import LocalAdapter

        with self._lock:
            found = self._adapters.pop(file, None)
            if found is None:
                folder.check(file)
                found = LocalAdapter.read(file)
            self._adapters[file] = found  # the most recently used is last
            while sum(adapter.nbytes for adapter in self._adapters.values()) > _ROOM:
                del self._adapters[next(iter(self._adapters))]
            return found


@contextmanager
def _removed_if_refused(file: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def _only_here() -> NotReady:
    return NotReady(
        "this adapter was trained on this device alone, and the cloud does not know it",
        fix="leave --where out, or have the cloud train one with `sotto customize --replace`",
        subject="adapter",
    )


def _open_encoder(bundle: Bundle) -> Encoder:
    # Give memory back each time: the peaks of texts, import and graph must not coincide.
    memory.give_back()
    from sottovoce.core.bundle.encoder import Encoder

    memory.give_back()
    encoder = Encoder.load(bundle)
    memory.give_back()
    return encoder


def _size(file: Path) -> int:
    return file.stat().st_size if file.is_file() else 0


_LOOK_SECONDS = 2.0
_LONGEST_WAIT = 60.0
_log = logging.getLogger(__name__)


class Follower:
    """A thread beside the daemon that follows adapters.

    Args:
        look: seconds between checks whether any adapter is followed; also the first pause after the
            cloud did not answer, which doubles up to a minute.
    """

    def __init__(self, cloud: Cloud, home: Home, *, look: float = _LOOK_SECONDS) -> None:
        self._cloud = cloud
        self._home = home
        self._look = look
        self._stopped = threading.Event()
        self._seen: dict[str, str] = {}
        self._end: Callable[[], None] = lambda: None
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """Stop within ``seconds``; a running fetch is cut off and resumes next time."""
        self._stopped.set()
        self._end()
        join([self._thread], seconds)

    def _run(self) -> None:
        wait = self._look
        while not self._stopped.wait(wait * random.uniform(0.75, 1.0)):
            try:
                self._once()
                wait = self._look
            except SottovoceError as error:
                self._warn(error)
                wait = min(2 * wait, _LONGEST_WAIT)

    def _once(self) -> None:
        """Open one stream, if any adapter is followed, and read it to its end."""
        followed = self._home.followed()
        self._seen = {name: version for name, version in self._seen.items() if name in followed}
        if not followed:
            return
        with closing(self._cloud.watch_adapters(sorted(followed), self._stoppable)) as versions:
            for said in versions:
                if self._stopped.is_set():
                    return
                if self._seen.get(said.adapter) != said.version:
                    self._take(said.adapter, said.version)

    def _take(self, adapter: str, version: str) -> None:
        """Fetch one version, if the owner still follows its adapter.

        A failed version comes again with the next stream, and does not delay the others.
        """
        name = self._home.followed().get(adapter)
        if name is None:
            return
        try:
            self._home.fetch(name)
            self._seen[adapter] = version
        except SottovoceError as error:
            self._warn(error)

    def _warn(self, error: SottovoceError) -> None:
        if not self._stopped.is_set():
            missing = ", the encoder cannot be fetched" if error.subject == "encoder" else ""
            _log.warning("following adapters: %s%s", type(error).__name__, missing)

    def _stoppable(self, end: Callable[[], None]) -> None:
        self._end = end
        if self._stopped.is_set():
            end()
