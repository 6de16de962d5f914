"""Adapters that the device trains itself: nothing is released, sent or charged.

They stand beside adapters from the cloud, under the same kind of names, so apps use both alike. The
cloud does not know them.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from sottovoce.core.errors import InvalidInput
from sottovoce.core.platform.files import atomic, disk
from sottovoce.core.rpc.limits import LARGEST_ADAPTER
from sottovoce.core.text.checks import check_text
from sottovoce.edge.state.adapters import AdapterFolder
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.opaque_ids import adapter_id, label_ids
from sottovoce.edge.state.outbox import Outbox
from sottovoce.edge.tasks.adapters import check_free, check_name
from sottovoce.edge.tasks.examples import check_example, check_labels, check_number, numbered
from sottovoce.edge.tasks.local_inference import Home
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training

__all__ = ["MOST_CELLS", "MOST_LEARNT", "Learner"]

MOST_LEARNT = 20_000
"""Largest number of examples, because their states are all in memory at once."""

MOST_CELLS = 2_000_000
"""Largest product of examples and labels, the scores in one training step."""


class Learner:
    """Trains heads.

    Args:
        store, outbox, home: of the device.
        folder: of adapters.
    """

    def __init__(self, store: Store, outbox: Outbox, home: Home, folder: Path) -> None:
        self._store = store
        self._outbox = outbox
        self._home = home
        self._folder = folder

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
            examples: texts and labels.
            replace: replace an adapter of this name.
            progress: receives the number of texts read.

        Raises:
            InvalidInput: the name is invalid, or nothing can be learnt from the examples.
            NotReady: the name is in use, or the encoder was not fetched.
            QuotaExceeded: the disk is full.
        """
        from sottovoce.core.local.encoder import Additions  # loaded only here
        from sottovoce.core.local.learning import fit

        self._check(name, examples, replace=replace)
        encoder = self._home.encoder()
        none = Additions.none(encoder.shape)
        states = np.empty((len(examples), encoder.shape.width), np.float32)
        for place, example in enumerate(examples):
            states[place] = encoder.pooled(example.text, none)
            progress(place + 1)
        # The space makes this differ from every name, so it is not the cloud's adapter of this
        # name. Its folder differs too, and no fetch of the cloud's adapter reveals the hash of this
        # one.
        opaque = adapter_id(self._store.seal, f"local {name}")
        own = sorted({example.label for example in examples})
        sent = label_ids(self._store.seal, opaque, own)
        data = fit(states, [sent[e.label] for e in examples], encoder.shape).to_bytes()
        if len(data) > LARGEST_ADAPTER:
            raise InvalidInput("too many labels for one adapter", fix="use fewer", subject="labels")
        folder, version = AdapterFolder(self._folder, opaque), hashlib.sha256(data).hexdigest()
        record = self._record(name, opaque, len(examples))
        job = training.CreateJobRequest(adapter=opaque)
        labels = {theirs: mine for mine, theirs in sent.items()}
        with folder.alone(), disk(self._folder):
            folder.partial()[0].unlink(missing_ok=True)  # left by an interrupted run
            with atomic(folder.begun(version)) as file:
                file.write(data)
            # After a kill at any point, the adapter in use has a record with its labels. A
            # replacement is put in use after its record is written. The first one is
            # installed before its record is committed, or the name would have no adapter. A full
            # disk changes nothing.
            replaces = any(one.adapter_id == opaque for one in self._outbox.all())
            with folder.undone():
                with self._store.transaction() as transaction:
                    self._outbox.insert(transaction, record, record.id, job, labels)
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
            self._outbox.forget(record.id)
            raise

    def _check(self, name: str, examples: Sequence[agent.LabelledText], *, replace: bool) -> None:
        check_name(name)
        if not replace:
            check_free(self._outbox, name, fix="take another name, or --replace")
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
