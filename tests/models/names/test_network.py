"""Of its neighbours the network sees looks only, and the graph computes what the network does."""

import numpy as np
import pytest
import torch

from sottovoce.core.text.names import KINDS
from sottovoce.core.text.onnx_models import session
from sottovoce.core.text.word_shapes import LOOKS
from sottovoce.models.names.network import Network, Size, to_onnx

SIZE = Size(rows=(32,) * 8, feature_width=8, width=16, distances=(1, 2), joint=12)
Inputs = tuple[torch.Tensor, torch.Tensor]


def network(size: Size = SIZE) -> Network:
    torch.manual_seed(1)
    made = Network(size).eval()
    for norm in made.modules():
        if isinstance(norm, torch.nn.LayerNorm):  # as after training: not all ones and zeros
            torch.nn.init.normal_(norm.weight, 1, 0.1)
            torch.nn.init.normal_(norm.bias, 0, 0.1)
    return made


@pytest.fixture
def inputs() -> Inputs:
    generator = torch.Generator().manual_seed(2)
    rows = torch.randint(0, 256, (1, 15, 16), generator=generator)
    return rows, torch.randint(0, LOOKS, (1, 15), generator=generator)


def moved(made: Network, before: Inputs, after: Inputs) -> list[int]:
    present = torch.ones(1, 15)
    with torch.inference_mode():
        difference = made(*before, present) - made(*after, present)
    return difference.abs().amax((0, 2)).nonzero().flatten().tolist()


def test_another_word_changes_its_own_scores_and_nobody_elses(inputs: Inputs) -> None:
    rows, looks = inputs
    changed = rows.clone()
    changed[:, 7] = 0
    assert moved(network(), (rows, looks), (changed, looks)) == [7]
    seeing = Size(**{**SIZE.__dict__, "neighbours": "words"})
    assert moved(network(seeing), (rows, looks), (changed, looks)) == [4, 5, 6, 7, 8, 9, 10]


def test_another_look_changes_the_words_within_reach(inputs: Inputs) -> None:
    rows, looks = inputs
    changed = looks.clone()
    changed[:, 7] = (looks[:, 7] + 1) % LOOKS
    assert SIZE.reach == 3
    assert moved(network(), (rows, looks), (rows, changed)) == [4, 5, 6, 7, 8, 9, 10]


def test_as_many_empty_places_as_the_longest_distance_keep_passages_apart(inputs: Inputs) -> None:
    rows, looks = inputs
    present = torch.ones(1, 15)
    present[:, 6:8] = 0
    made = network()
    together = made(rows, looks, present)[:, :6]
    torch.testing.assert_close(together, made(rows[:, :6], looks[:, :6], torch.ones(1, 6)))


def test_the_graph_agrees_with_the_network_up_to_rounding() -> None:
    made = network(Size(rows=(40,) * 8, feature_width=16, width=32, joint=24))
    opened = session(to_onnx(made))
    random = np.random.default_rng(4)
    for n_words in (1, 2, 50):
        rows = random.integers(0, 320, (n_words, 16)).astype(np.int32)
        looks = random.integers(0, LOOKS, n_words).astype(np.int32)
        (logits,) = opened.run(None, {"rows": rows, "looks": looks})
        with torch.inference_mode():
            expected = made(
                torch.from_numpy(rows)[None], torch.from_numpy(looks)[None], torch.ones(1, n_words)
            )[0].numpy()
        assert logits.shape == (n_words, len(KINDS))
        assert np.abs(logits - expected).max() < 0.1 * max(expected.std(), 0.3)


def test_weights_take_one_byte_and_the_graph_is_the_same_each_time() -> None:
    made = network(Size())
    graph = to_onnx(made)
    assert graph == to_onnx(made)
    assert len(graph) < 1.3 * sum(weight.numel() for weight in made.parameters()) + 50_000


def test_a_network_that_sees_its_neighbours_words_does_not_ship() -> None:
    with pytest.raises(ValueError, match="must not ship"):
        to_onnx(network(Size(**{**SIZE.__dict__, "neighbours": "words"})))
