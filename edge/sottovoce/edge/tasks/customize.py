"""Take labelled texts in: check, privatise and queue all, or none.

This is the first half of RAPT's customisation (v2 section III-B), and it must not be left half
done. Examples gather in the outbox, where they are not ready yet. At the end, one transaction
charges the ledger, creates the customisation and makes its examples ready. The uploader sends it.
Input that the cloud would refuse is refused here, before any privacy is spent.

For adapters that the device trains itself, nothing is released, sent or charged. They stand beside
adapters from the cloud, under the same kind of names, so apps use both alike. The cloud does not
know them.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from google.protobuf import timestamp_pb2

from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.errors import InvalidInput, SottovoceError
from sottovoce.core.platform.files import atomic, disk
from sottovoce.core.privacy import token_embedding
from sottovoce.core.privacy.gaussian import usual_delta
from sottovoce.core.privacy.noise import SecureRandom
from sottovoce.core.privacy.policies import Setting
from sottovoce.core.privacy.votes import check_epsilon, respond
from sottovoce.core.rpc import training_settings
from sottovoce.core.rpc.limits import LARGEST_ADAPTER
from sottovoce.core.text.words import check_text
from sottovoce.edge.state.adapters import AdapterFolder
from sottovoce.edge.state.corrections import Corrections
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.ledger import Ledger, Purpose
from sottovoce.edge.state.outbox import OpaqueIds, Outbox, Staged, adapter_id, label_ids
from sottovoce.edge.tasks.adapters import check_free, check_name
from sottovoce.edge.tasks.engine import Engine, OpenBundle
from sottovoce.edge.tasks.examples import (
    Base,
    Corrected,
    base_of,
    check_example,
    check_labels,
    check_number,
    check_private,
    choice,
    label_charge,
    labelled,
    numbered,
)
from sottovoce.edge.tasks.local_inference import Home
from sottovoce.edge.tasks.privatize import Releases, resolve
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training

DEFAULT_PLAIN_TOKENS = 10
_AT_ONCE = 64  # flushing the disk for each example would take longer than privatising it


@dataclass(frozen=True, slots=True)
class Defaults:
    """The owner's defaults; ``plain_tokens`` counts only with reconstruction."""

    setting: Setting
    plain_tokens: int


@dataclass(eq=False)
class Customizer:
    """Turns Customize calls into queued customisations."""

    engine: Engine
    store: Store
    ledger: Ledger
    releases: Releases
    outbox: Outbox
    defaults: Defaults

    def __post_init__(self) -> None:
        self._corrections = Corrections(self.store)
        self._failed: set[str] = set()

    def accept(
        self, settings: agent.CustomizationSettings, examples: Iterable[agent.LabelledText]
    ) -> agent.Customization:
        """Privatise and queue `examples`, and return the new customisation.

        Returns the earlier customisation if a call with the same ``request_id`` made one. After an
        error, nothing is charged or queued.

        Raises:
            InvalidInput: wrong settings, or examples that cannot be trained on; the message gives
                the example's number and never its text.
            NotFound: unknown level, mechanism or policy.
            NotReady: there is no bundle; the name is in use and ``replace`` is not set; or no
                corrections wait, or they changed meanwhile.
            QuotaExceeded: the ledger's limit, the disk, or too many unfinished customisations.
        """
        request_id = settings.request_id or secrets.token_hex(16)
        existing = self.outbox.find_request(request_id)
        if existing is not None:
            return existing
        base = base_of(self.outbox, settings.adapter) if settings.add else None
        wanted = self._check(settings, base)
        if base is None and not settings.replace:
            back = "`sotto rollback` has the one before back"
            check_free(
                self.outbox, settings.adapter, fix=f"take another name, or --replace; {back}"
            )
        self.outbox.check_room()
        setting = base.setting if base else resolve(settings.privacy, self.defaults.setting)
        opened = self.engine.current()
        opened.privatizer.mechanism(setting)
        plain = _plain_tokens(settings, wanted.plain_tokens, opened.bundle, setting.policy)
        identity = secrets.token_hex(16)
        corrected = Corrected(self._corrections, settings.adapter)
        if base and settings.corrections:
            examples = chain(examples, corrected.examples(base))
        try:
            writes = wanted.task == training.TASK_GENERATION
            seen, public = self._stage(
                identity, opened, setting, plain, examples, corrected, writes=writes
            )
            with corrected.beside():
                check_number(seen.total())
                if not writes:
                    check_labels(seen)
            check_private(settings, seen.total(), public)
            if wanted.dp_epsilon:
                wanted.dp_delta = wanted.dp_delta or usual_delta(seen.total())
            names = base.names if base else self._named(settings.adapter, seen, wanted)
            if base is not None:
                base.check(seen)
            record, job = self._records(
                identity, names, setting, opened, wanted, seen.total() + public
            )
            sent = {own: theirs for theirs, own in names.labels.items()} or {
                x: x for x in sorted(seen)
            }
            own = {sent[label]: label for label in sent if sent[label] != label}
            try:
                with self.store.transaction() as transaction:
                    purpose = Purpose("customize", settings.adapter)
                    self._commit(transaction, identity, settings.label_epsilon, sent, purpose)
                    if wanted.dp_epsilon:
                        self.ledger.charge_adapter(transaction, wanted.dp_epsilon, wanted.dp_delta)
                    self.outbox.insert(transaction, record, request_id, job, own)
                    self._corrections.take(transaction, corrected.taken, identity)
            except SottovoceError:
                twin = self.outbox.find_request(request_id)
                if twin is None:
                    raise
                return twin  # the same request arrived twice at once, and the other was first
        finally:
            self._unstage(identity)
        self.outbox.show(record)
        return record

    def _unstage(self, identity: str) -> None:
        """Delete the examples that this call and earlier calls staged, unless they are ready.

        A full disk may delay the removal. Staged examples do not affect queued customisations.
        """
        self._failed.add(identity)
        with suppress(SottovoceError):
            for each in [*self._failed]:
                self.outbox.unstage(each)
                self._failed.discard(each)

    def _named(
        self, adapter: str, seen: Iterable[str], wanted: training.TrainingSettings
    ) -> OpaqueIds:
        """Return the pseudonyms of an adapter and its labels for the cloud."""
        seal = self.store.seal
        opaque = adapter_id(seal, adapter)
        if wanted.label_words or wanted.task == training.TASK_GENERATION:
            return OpaqueIds(adapter, opaque, {})  # a decoder needs the real words
        sent = label_ids(seal, opaque, sorted(seen))
        return OpaqueIds(adapter, opaque, {theirs: own for own, theirs in sent.items()})

    def _check(
        self, settings: agent.CustomizationSettings, base: Base | None
    ) -> training.TrainingSettings:
        """Check the settings, and return the training settings for the cloud."""
        check_name(settings.adapter)
        if settings.corrections and not settings.add:
            raise InvalidInput(
                "corrections of an adapter that is trained anew",
                fix="ask for add too: they are added to what the adapter has learnt",
                subject="corrections",
            )
        if settings.label_epsilon:
            check_epsilon(settings.label_epsilon)
            if settings.training.task == training.TASK_GENERATION:
                raise InvalidInput(
                    "an epsilon for labels, and generation has none",
                    fix="leave label_epsilon out",
                    subject="label_epsilon",
                )
        if base is not None:
            wanted = training_settings.added(settings, base.training)
            training_settings.check(wanted)
            return wanted
        training_settings.check_plain(settings)
        count = settings.training.plain_tokens or self.defaults.plain_tokens
        wanted = training_settings.of(settings, count if settings.training.reconstruction else 0)
        training_settings.check(wanted)
        return wanted

    def _stage(
        self,
        identity: str,
        opened: OpenBundle,
        setting: Setting,
        plain: Iterator[list[int]] | None,
        examples: Iterable[agent.LabelledText],
        corrected: Corrected,
        *,
        writes: bool,
    ) -> tuple[Counter[str], int]:
        """Privatise every example into the outbox, where it is not ready yet.

        Returns how often each label came, and how many texts are public and unlabelled.
        """
        seen: Counter[str] = Counter()
        public = 0
        staged: list[Staged] = []
        for sequence, example in enumerate(examples):
            with corrected.numbered(sequence):
                check_example(sequence, example, writes=writes)
            if example.public:
                public += 1
            else:
                seen[example.label] += 1
            # Input and output are one document, so words in both are released once.
            document = f"{example.text}\n{example.output}" if writes else example.text
            with corrected.numbered(sequence):
                made = self.releases.drawn(opened, document, setting)
            waiting = training.PrivatizedExample(
                label=example.label, released_text=made.release.text
            )
            if writes:
                text, output = made.release.cut(len(example.text))
                waiting.released_text, waiting.released_output = text, output
            if plain is not None:
                ids = next(plain)
                waiting.plain_token_ids.extend(ids)
                waiting.released_plain_tokens.extend(
                    opened.privatizer.release_plain_tokens(ids, setting)
                )
            seal = self.store.seal
            known_by = b"" if example.public else labelled(seal, document, example.label)
            staged.append(Staged(waiting, made.digest, made.release.charge, known_by))
            if len(staged) == _AT_ONCE:
                self.outbox.stage(identity, staged)
                staged = []
        self.outbox.stage(identity, staged)
        return seen, public

    def _commit(
        self,
        transaction: sqlite3.Connection,
        identity: str,
        epsilon: float,
        sent: dict[str, str],
        purpose: Purpose,
    ) -> None:
        """Make the staged examples ready, and charge those not charged before.

        `sent` maps each label to its name in the cloud.
        """
        seal, classes = self.store.seal, list(sent)
        # The draw for a label is keyed by the example, so that a repeat gives the same result.
        among = choice(seal, classes)

        def leaves(label: str, known_by: bytes) -> str:
            if not known_by:
                return ""
            if epsilon:
                chance = seal.name(b"label chance", known_by, among)
                label = respond(label, classes, epsilon, chance)
            return sent[label]

        if any(classes):  # otherwise generation, which has no labels
            known = self.outbox.labelled(transaction, identity)
            examples = (label_charge(seal, known_by, among) for known_by in known)
            self.ledger.charge_labels(transaction, examples, epsilon or math.inf)
        charges = [
            charge
            for digest, charge in self.outbox.make_ready(transaction, identity, leaves)
            if self.ledger.first(transaction, digest)
        ]
        self.ledger.charge(transaction, math.fsum(charges), len(charges), purpose)

    def _records(
        self,
        identity: str,
        names: OpaqueIds,
        setting: Setting,
        opened: OpenBundle,
        wanted: training.TrainingSettings,
        examples: int,
    ) -> tuple[agent.Customization, training.CreateJobRequest]:
        now = timestamp_pb2.Timestamp()
        now.GetCurrentTime()
        record = agent.Customization(
            id=identity,
            adapter=names.adapter,
            state=agent.CUSTOMIZATION_STATE_UPLOADING,
            examples=examples,
            create_time=now,
            adapter_id=names.adapter_id,
            privacy=agent.PrivacyOptions(
                level=setting.level, mechanism=setting.mechanism, policy=setting.policy
            ),
            method=wanted.method,
            task=wanted.task,
        )
        job = training.CreateJobRequest(
            request_id=identity,
            adapter=names.adapter_id,
            training=wanted,
            release=training.ReleaseSettings(
                mechanism=setting.mechanism,
                eta=opened.privatizer.mechanism(setting).eta,
                level=setting.level,
                bundle_id=opened.bundle.id,
                policy=setting.policy,
            ),
        )
        return record, job


def _plain_tokens(
    settings: agent.CustomizationSettings, length: int, bundle: Bundle, policy: str
) -> Iterator[list[int]] | None:
    """Yield the plain tokens of each example in turn; None without reconstruction."""
    if not length:
        return None
    by_frequency = settings.plain_sampling == agent.PLAIN_SAMPLING_FREQUENCY
    words = token_embedding.vocabulary(
        bundle, policy, settings.plain_vocabulary, by_frequency=by_frequency
    )
    return token_embedding.sequences(words, length, settings.plain_sequences, SecureRandom())


MOST_LEARNT = 20_000
"""Largest number of examples, because their states are all in memory at once."""

MOST_CELLS = 2_000_000
"""Largest product of examples and labels, the scores in one training step."""


@dataclass(eq=False)
class Learner:
    """Trains heads."""

    store: Store
    outbox: Outbox
    home: Home
    folder: Path

    def learn(
        self,
        name: str,
        examples: Sequence[agent.LabelledText],
        *,
        replace: bool = False,
        progress: Callable[[int], None] = lambda done: None,
    ) -> agent.Customization:
        """Train the adapter ``name``, put it in use, and return its record.

        After an error, nothing has changed.

        Args:
            name: the adapter's name; it stays on the device, as everything here does.
            progress: receives the number of texts read.

        Raises:
            InvalidInput: the name is invalid, or nothing can be learnt from the examples.
            NotReady: the name is in use, or the encoder was not fetched.
            QuotaExceeded: the disk is full.
        """
        from sottovoce.core.bundle.adapter import fit
        from sottovoce.core.bundle.encoder import Additions  # loaded only here

        self._check(name, examples, replace=replace)
        encoder = self.home.encoder()
        none = Additions.none(encoder.shape)
        states = np.empty((len(examples), encoder.shape.width), np.float32)
        for place, example in enumerate(examples):
            states[place] = encoder.pooled(example.text, none)
            progress(place + 1)
        # The space makes this differ from every name, so it is not the cloud's adapter of this
        # name. Its folder differs too, and no fetch of the cloud's adapter reveals the hash of this
        # one.
        opaque = adapter_id(self.store.seal, f"local {name}")
        own = sorted({example.label for example in examples})
        sent = label_ids(self.store.seal, opaque, own)
        data = fit(states, [sent[e.label] for e in examples], encoder.shape).to_bytes()
        if len(data) > LARGEST_ADAPTER:
            raise InvalidInput("too many labels for one adapter", fix="use fewer", subject="labels")
        folder, version = AdapterFolder(self.folder, opaque), hashlib.sha256(data).hexdigest()
        record = self._record(name, opaque, len(examples))
        job = training.CreateJobRequest(adapter=opaque)
        labels = {theirs: mine for mine, theirs in sent.items()}
        with folder.alone(), disk(self.folder):
            folder.partial()[0].unlink(missing_ok=True)  # left by an interrupted run
            with atomic(folder.begun(version)) as file:
                file.write(data)
            # After a kill at any point, the adapter in use has a record with its labels. A
            # replacement is put in use after its record is written. The first one is
            # installed before its record is committed, or the name would have no adapter. A full
            # disk changes nothing.
            replaces = any(one.adapter_id == opaque for one in self.outbox.all())
            with folder.undone():
                with self.store.transaction() as transaction:
                    self.outbox.insert(transaction, record, record.id, job, labels)
                    if not replaces:
                        folder.install(folder.begun(version), version)
                if replaces:
                    self._put_in_use(folder, version, record)
            folder.prune()
        return record

    def _put_in_use(self, folder: AdapterFolder, version: str, record: agent.Customization) -> None:
        try:
            folder.install(folder.begun(version), version)
        except BaseException:
            self.outbox.forget(record.id)
            raise

    def _check(self, name: str, examples: Sequence[agent.LabelledText], *, replace: bool) -> None:
        check_name(name)
        if not replace:
            check_free(self.outbox, name, fix="take another name, or --replace")
        if len(examples) > MOST_LEARNT:
            raise InvalidInput(
                f"{len(examples)} examples are too many for this device",
                fix=f"give at most {MOST_LEARNT}, or have the cloud train with `sotto customize`",
                subject="examples",
            )
        check_number(len(examples))
        for place, example in enumerate(examples):
            with numbered(place):
                check_example(place, example, writes=False)
                check_text(example.text)
        seen = Counter(example.label for example in examples)
        check_labels(seen)
        if len(examples) * len(seen) > MOST_CELLS:
            raise InvalidInput(
                f"{len(seen)} labels are too many for {len(examples)} examples on this device",
                fix=f"give at most {MOST_CELLS // len(examples)}, or fewer examples, or have the"
                " cloud train with `sotto customize`",
                subject="examples",
            )

    @staticmethod
    def _record(name: str, opaque: str, examples: int) -> agent.Customization:
        record = agent.Customization(
            id=secrets.token_hex(16),
            adapter=name,
            adapter_id=opaque,
            state=agent.CUSTOMIZATION_STATE_SUCCEEDED,
            examples=examples,
            method=training.METHOD_HEAD,
            task=training.TASK_CLASSIFICATION,
            local=True,
        )
        record.create_time.GetCurrentTime()
        return record
