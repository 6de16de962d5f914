"""Peers on one thread: whole answers and answers in pieces from the same model, as each alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from sottovoce.cloud.metrics import Metrics
from sottovoce.cloud.models import backbone
from sottovoce.cloud.models.methods import Lora
from sottovoce.cloud.serving.batcher import Step, Stream
from sottovoce.cloud.serving.model_thread import ModelThread, passes
from sottovoce.cloud.serving.predictor import Predictor
from sottovoce.core.errors import InvalidInput, Unavailable
from tests.support.serving import make

TEXT = "The doctor wrote a letter to her sister in Paris."
LONGEST = 40


@dataclass(frozen=True)
class Row:
    """Token ids so far, and how many are still to come."""

    ids: tuple[int, ...]
    left: int


class Continuation:
    """Greedy decoding: the next token's embedding is nearest to the last state."""

    def __init__(self, thread: ModelThread) -> None:
        self._thread = thread
        self._tokenizer = thread.backbone.tokenizer
        self.rows: list[int] = []  # of every step

    def submit(self, text: str, tokens: int, *, tenant: str = "") -> Stream[int]:
        ids = tuple(self._tokenizer(text)["input_ids"])
        return self._thread.stream(self._step, Row(ids, tokens), tenant=tenant, cost=len(ids))

    @torch.inference_mode()
    def _step(self, rows: Sequence[Row]) -> Iterator[tuple[int, Step[Row, int] | Exception]]:
        self.rows.append(len(rows))
        ids = pad_sequence([torch.tensor(row.ids) for row in rows], batch_first=True)
        lengths = torch.tensor([len(row.ids) for row in rows])
        mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
        states = self._thread.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        last = states[torch.arange(len(rows)), lengths - 1]  # (B, h)
        table = self._thread.encoder.get_input_embeddings().weight
        for place, (row, token) in enumerate(zip(rows, (last @ table.T).argmax(1), strict=True)):
            if len(row.ids) == LONGEST:
                yield place, InvalidInput("too long")
                continue
            then = Row((*row.ids, int(token)), row.left - 1) if row.left > 1 else None
            yield place, Step(int(token), then, cost=len(row.ids) + 1)


def alone(bones: Path, text: str, tokens: int) -> list[int]:
    """The same by the definition: one text, no padding, no thread."""
    loaded = backbone.load(str(bones))
    table = loaded.model.get_input_embeddings().weight
    ids = loaded.tokenizer(text)["input_ids"]
    found: list[int] = []
    with torch.no_grad():
        for _ in range(tokens):
            states = loaded.model(input_ids=torch.tensor([[*ids, *found]])).last_hidden_state
            found.append(int((states[0, -1] @ table.T).argmax()))
    return found


@pytest.fixture
def bones(families: dict[str, Path]) -> Path:
    return families["qwen2"]


def test_texts_are_continued_while_others_are_predicted(bones: Path, tmp_path: Path) -> None:
    adapters = [make(bones, tmp_path / f"a{n}" / "adapter", Lora(), seed=n) for n in range(3)]
    texts = [TEXT, TEXT[:20], "When the train"]
    with closing(ModelThread(backbone.load(str(bones)))) as thread:
        predictor, continuation = Predictor(thread), Continuation(thread)
        expected = [dict(predictor.submit(a.files, TEXT).result(60)) for a in adapters]
        streams = [continuation.submit(text, 12, tenant=text) for text in texts]
        got: list[list[int]] = [[] for _ in texts]
        for turn in range(12):  # a prediction for every piece that is read
            asked = predictor.submit(adapters[turn % 3].files, TEXT, tenant="asks")
            for pieces, stream in zip(got, streams, strict=True):
                pieces.append(next(stream))
            assert dict(asked.result(60)) == pytest.approx(expected[turn % 3], abs=1e-5)
        assert [list(stream) for stream in streams] == [[], [], []]
    assert got == [alone(bones, text, 12) for text in texts]
    assert len({tuple(pieces) for pieces in got}) == 3
    assert max(continuation.rows) > 1  # of one pass


def test_predictions_are_answered_between_the_steps_of_long_texts(
    bones: Path, tmp_path: Path
) -> None:
    adapter = make(bones, tmp_path / "job" / "adapter", Lora())
    with closing(ModelThread(backbone.load(str(bones)), batch=4)) as thread:
        predictor, continuation = Predictor(thread), Continuation(thread)
        predictor.submit(adapter.files, TEXT).result(60)
        begun, go = threading.Event(), threading.Event()

        def hold(requests: Sequence[None]) -> Iterator[tuple[int, None]]:
            begun.set()
            assert go.wait(60)
            return enumerate(requests)

        thread.submit(hold, None)
        assert begun.wait(60)
        streams = [continuation.submit(TEXT[:9], 10, tenant=str(n)) for n in range(3)]
        steps: list[int] = []  # made by the time each prediction was answered
        answers = [predictor.submit(adapter.files, TEXT, tenant="asks") for _ in range(9)]
        for answer in answers:
            answer.add_done_callback(lambda _: steps.append(len(continuation.rows)))
        go.set()
        for answer in answers:
            answer.result(60)
        # Three texts take three of four places, the light tenant the fourth: neither waits for
        # the other's end.
        assert steps[-1] > 1
        assert steps[0] == 1
        assert [len(list(stream)) for stream in streams] == [10] * 3


def test_what_a_row_holds_is_given_back_however_its_stream_ends(bones: Path) -> None:
    returned: list[str] = []
    thread = ModelThread(backbone.load(str(bones)))
    continuation = Continuation(thread)
    texts = {"read": "When", "failed": TEXT * 2, "cancelled": "a", "open": "b"}
    streams = {name: continuation.submit(text, 20) for name, text in texts.items()}
    for name, stream in streams.items():
        stream.ended.add_done_callback(lambda _, name=name: returned.append(name))
    assert len(list(streams["read"])) == 20
    with pytest.raises(InvalidInput):
        list(streams["failed"])
    streams["cancelled"].cancel()
    assert sorted(returned) == ["cancelled", "failed", "read"]
    thread.close()
    assert returned[-1] == "open"
    with pytest.raises(Unavailable, match="stopping"):
        list(streams["open"])


def test_the_model_is_frozen_and_of_the_numbers_asked_for(families: dict[str, Path]) -> None:
    for family, asked in (("bert", torch.bfloat16), ("t5", torch.bfloat16), ("bert", None)):
        loaded = backbone.load(str(families[family]))
        with closing(ModelThread(loaded, dtype=asked)) as thread:
            expected = asked or torch.float32
            assert thread.dtype == expected
            kinds = {(p.dtype, p.requires_grad) for p in thread.encoder.parameters()}
            assert kinds == {(expected, False)}
            assert thread.backbone is loaded


def test_rows_share_passes_as_this_device_has_them(bones: Path) -> None:
    shapes = [(0, 0, 100)] * 11 + [(0, 5, 3), (1, 0, 90), (0, 0, 70)]
    with closing(ModelThread(backbone.load(str(bones)))) as thread:
        expected = (16_384, 2_048) if thread.device.type == "cuda" else (512, 32)
        assert thread.passes(shapes) == passes(shapes, *expected)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU runs padded passes")
def test_an_encoder_s_rows_share_passes_in_their_order(families: dict[str, Path]) -> None:
    shapes = [(0, 0, 250), (1, 0, 9), (0, 12, 250), (0, 0, 3), (0, 0, 600), (1, 0, 8), (0, 0, 5)]
    with closing(ModelThread(backbone.load(str(families["bert"])))) as thread:
        assert thread.encoder_passes(shapes) == [[0, 2], [5, 1], [3], [4], [6]]
        assert thread.encoder_passes([]) == []


def test_a_batch_fills_two_passes(bones: Path) -> None:
    metrics = Metrics()
    with closing(ModelThread(backbone.load(str(bones)), metrics=metrics)) as thread:
        assert thread.metrics is metrics
        most = 32_768 if thread.device.type == "cuda" else 1_024
        gate, open_ = threading.Event(), threading.Event()
        batches: list[int] = []

        def work(requests: Sequence[None]) -> Iterator[tuple[int, None]]:
            batches.append(len(requests))
            gate.set()
            assert open_.wait(60)
            return enumerate(requests)

        answers = [thread.submit(work, None)]
        assert gate.wait(60)
        answers += [thread.submit(work, None, cost=most // 4) for _ in range(5)]
        open_.set()
        for answer in answers:
            answer.result(60)
        assert batches == [1, 4, 1]
