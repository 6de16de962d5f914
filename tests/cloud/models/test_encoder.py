"""Every family of backbone answers from token embeddings as it does from its own tokens."""

from pathlib import Path

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - its customary name

from sottovoce.cloud.models import backbone as backbones
from sottovoce.cloud.models.classifier import encoder_of
from sottovoce.cloud.models.encoder import Encoder
from sottovoce.core.errors import InvalidInput

TEXTS = ("The doctor wrote a letter.", "We met at noon in the market when it rained.")


@pytest.fixture(params=["default", "tiny_decoder", "tiny_encoder_decoder"])
def backbone(request: pytest.FixtureRequest) -> backbones.LoadedBackbone:
    name = request.param
    return backbones.load(name if name == "default" else str(request.getfixturevalue(name)))


def published(backbone: backbones.LoadedBackbone, text: str) -> torch.Tensor:
    """The embedding by the book: ids in, mean of the states, length 1."""
    inputs = backbone.tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        states = encoder_of(backbone.model)(input_ids=inputs["input_ids"]).last_hidden_state
    return F.normalize(states.mean(1), dim=1)[0]


def tokens(encoder: Encoder, backbone: backbones.LoadedBackbone, text: str) -> torch.Tensor:
    return encoder.token_embeddings(backbone.tokenizer(text, add_special_tokens=False)["input_ids"])


def test_clean_inputs_give_the_published_embedding(backbone: backbones.LoadedBackbone) -> None:
    encoder = Encoder(backbone)
    found = encoder.encode([tokens(encoder, backbone, text) for text in TEXTS])

    assert found.shape == (2, encoder.width)
    for row, text in zip(found, TEXTS, strict=True):
        torch.testing.assert_close(row, published(backbone, text), atol=2e-5, rtol=0)
    torch.testing.assert_close(found, encoder.encode_clean(TEXTS), atol=2e-5, rtol=0)


def test_the_neighbours_in_a_batch_do_not_matter(backbone: backbones.LoadedBackbone) -> None:
    encoder = Encoder(backbone)
    short, long = (tokens(encoder, backbone, text) for text in TEXTS)
    together = encoder.encode([short, long, short])

    torch.testing.assert_close(together[0], encoder.encode([short])[0], atol=2e-5, rtol=0)
    torch.testing.assert_close(together[0], together[2])


def test_texts_too_long_empty_or_of_another_width_are_refused(tiny_decoder: Path) -> None:
    encoder = Encoder(backbones.load(str(tiny_decoder)))
    for rows, width in ((0, encoder.width), (encoder.max_tokens + 1, encoder.width), (3, 7)):
        with pytest.raises(InvalidInput) as caught:
            encoder.encode([torch.zeros(rows, width)])
        assert caught.value.subject == "embeddings"


def test_there_is_room_for_the_special_tokens() -> None:
    encoder = Encoder(backbones.load())
    assert encoder.max_tokens == 510
    assert encoder.encode([torch.zeros(510, encoder.width)]).isfinite().all()
