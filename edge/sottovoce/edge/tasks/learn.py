"""Adapters that the device trains itself: nothing is released, sent or charged.

Why it is here: they stand beside those that the cloud trained, under names of the same kind, so
that whoever asks need not care which it is; the cloud knows of none of them.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from sottovoce.core.errors import InvalidInput, NotReady
from sottovoce.core.system.files import disk
from sottovoce.core.text.checks import check_text
from sottovoce.core.wire.limits import LARGEST_ADAPTER, NAME
from sottovoce.edge.state.adapters import AdapterFolder
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.outbox import Outbox
from sottovoce.edge.state.pseudonyms import adapter_id, label_ids
from sottovoce.edge.tasks.examples import check_labels, check_number
from sottovoce.edge.tasks.home import Home
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training

__all__ = ["MOST_LEARNT", "Learner"]

MOST_LEARNT = 20_000
"""Examples, whose states are all in memory at once."""

_UNTRAINED = (agent.CUSTOMIZATION_STATE_FAILED, agent.CUSTOMIZATION_STATE_CANCELLED)


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
        """Trains the adapter ``name`` on labelled texts and puts it in use; gives its record.

        Args:
            name: which stays on the device, as all of it does.
            examples: texts and labels.
            replace: take the place of an adapter of this name.
            progress: told how many texts were read.

        Raises:
            InvalidInput: a bad name, or examples that nothing can be learnt from.
            NotReady: the name is in use, or the encoder was not fetched.
            QuotaExceeded: the disk is full.
        """
        from sottovoce.core.local.encoder import Additions  # loads onnxruntime
        from sottovoce.core.local.learning import fit

        self._check(name, examples, replace=replace)
        encoder = self._home.encoder()
        none = Additions.none(encoder.shape)
        states = np.empty((len(examples), encoder.shape.width), np.float32)
        for place, example in enumerate(examples):
            states[place] = encoder.pooled(example.text, none)
            progress(place + 1)
        opaque = adapter_id(self._store.seal, name)
        own = sorted({example.label for example in examples})
        sent = label_ids(self._store.seal, opaque, own)
        data = fit(states, [sent[e.label] for e in examples], encoder.shape).to_bytes()
        if len(data) > LARGEST_ADAPTER:
            raise InvalidInput("too many labels for one adapter", fix="use fewer", subject="labels")
        folder, version = AdapterFolder(self._folder, opaque), hashlib.sha256(data).hexdigest()
        record = self._record(name, opaque, len(examples))
        with folder.alone(), disk(self._folder):
            with self._store.transaction() as transaction:
                job = training.CreateJobRequest(adapter=opaque)
                labels = {theirs: mine for mine, theirs in sent.items()}
                self._outbox.insert(transaction, record, record.id, job, labels)
            self._outbox.save(record)  # nothing of it waits to be sent
            folder.begun(version).write_bytes(data)
            folder.install(folder.begun(version), version)
            folder.follow(False)
        return record

    def _check(self, name: str, examples: Sequence[agent.LabelledText], *, replace: bool) -> None:
        if not NAME.fullmatch(name):
            raise InvalidInput(
                "the adapter's name is not usable",
                fix="take 1 to 64 lower-case letters, digits, '-' or '_', the first no '-' or '_'",
                subject="adapter",
            )
        taken = (one for one in self._outbox.all() if one.adapter == name)
        if not replace and any(one.state not in _UNTRAINED for one in taken):
            raise NotReady(
                f"there is an adapter {name!r} already",
                fix="take another name, or --replace",
                subject="adapter",
            )
        if len(examples) > MOST_LEARNT:
            raise InvalidInput(
                f"{len(examples)} examples are too many for this device",
                fix=f"give at most {MOST_LEARNT}, or have the cloud train with `sotto customize`",
                subject="examples",
            )
        check_number(len(examples))
        check_labels(Counter(example.label for example in examples))
        for example in examples:
            check_text(example.text)

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
