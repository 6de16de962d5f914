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

from sottovoce.core.errors import InvalidInput
from sottovoce.core.system.files import atomic, disk
from sottovoce.core.text.checks import check_text
from sottovoce.core.wire.limits import LARGEST_ADAPTER
from sottovoce.edge.state.adapters import AdapterFolder
from sottovoce.edge.state.database import Store
from sottovoce.edge.state.opaque_ids import adapter_id, label_ids
from sottovoce.edge.state.outbox import Outbox
from sottovoce.edge.tasks.examples import check_example, check_labels, check_number, numbered
from sottovoce.edge.tasks.local_inference import Home
from sottovoce.edge.tasks.naming import check_free, check_name
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import training_pb2 as training

__all__ = ["MOST_CELLS", "MOST_LEARNT", "Learner"]

MOST_LEARNT = 20_000
"""Examples, whose states are all in memory at once."""

MOST_CELLS = 2_000_000
"""Examples times labels: that many scores are made at each of some hundred steps."""


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
            QuotaExceeded: the disk is full. After any error nothing has changed.
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
        # No name has a space: this is not the cloud's adapter of the same name, its folder is
        # another, and no fetch of that one tells the cloud the hash of what was learnt here.
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
            folder.partial()[0].unlink(missing_ok=True)  # of one that was cut off
            with atomic(folder.begun(version)) as file:
                file.write(data)
            # Whenever this is killed, what is in use has a record that knows its labels: what takes
            # the place of another does so after its record is there. The first of a name lies there
            # before, or it would be the name of nothing. A full disk leaves all as it was.
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
