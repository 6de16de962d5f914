"""What does padding cost on the wire, and what of a text's length does it leave to see?

Texts stand for their releases, whose words are others of about the same length. For each kind of
message: bytes with and without padding, how many sizes there are, and how many bits of length a
size tells (the entropy of sizes over these texts).

    python -m bench.padding
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from bench import console
from bench.console import Figures, table
from bench.data import document, messages
from sottovoce.core.bundle.folder import Bundle
from sottovoce.core.privacy.token_embedding import LONGEST, TokenEmbedding
from sottovoce.core.wire.padding import pad
from sottovoce.v1 import inference_pb2 as inference
from sottovoce.v1 import training_pb2 as training

ID: Final = "a" * 26
LABEL: Final = "a" * 16
A_MESSAGE: Final = 64
DOCUMENTS: Final = 200


def predictions(bundle: Bundle, texts: Iterable[str]) -> list[Any]:
    """A text to classify in each."""
    return [
        inference.InferencePredictRequest(adapter=ID, released_text=text, bundle_id=bundle.id)
        for text in texts
    ]


def uploads(_: Bundle, texts: Sequence[str]) -> list[Any]:
    """`A_MESSAGE` examples in each."""
    examples = [
        training.PrivatizedExample(example_id="0" * 32, released_text=text, label=LABEL)
        for text in texts
    ]
    return [
        training.UploadExamplesRequest(
            job_id="0" * 24, first_sequence=at, examples=examples[at : at + A_MESSAGE]
        )
        for at in range(0, len(examples), A_MESSAGE)
    ]


def embeddings(bundle: Bundle, texts: Iterable[str]) -> list[Any]:
    """The noisy vectors of a text's tokens in each."""
    counts = (min(len(bundle.tokenizer.ids(text)), LONGEST) for text in texts)
    return [
        inference.EncodeRequest(
            request_id="0" * 16,
            bundle_id=bundle.id,
            mechanism=TokenEmbedding.name,
            eta=30.0,
            tokens=count,
            vectors=bytes(2 * bundle.manifest.dimensions * count),
        )
        for count in counts
    ]


def cost(sent: Sequence[Any]) -> Figures:
    """Bytes, sizes and bits of these messages, bare and padded."""
    bare = [message.ByteSize() for message in sent]
    for message in sent:
        pad(message)
    padded = [message.ByteSize() for message in sent]
    return {
        "messages": len(sent),
        "bytes": statistics.mean(bare),
        "padded": statistics.mean(padded),
        "more": sum(padded) / sum(bare) - 1,
        "sizes": len(set(bare)),
        "padded_sizes": len(set(padded)),
        "bits": bits(bare),
        "padded_bits": bits(padded),
    }


def bits(sizes: Sequence[int]) -> float:
    """What one of these sizes tells."""
    shares = [times / len(sizes) for times in Counter(sizes).values()]
    return -sum(share * math.log2(share) for share in shares)


def main() -> None:
    """Pads messages, and prints a table."""
    arguments = console.parser("padding", __doc__).parse_args()
    bundle = Bundle.open(arguments.bundle)
    texts = [*messages("train"), *messages("test")]
    long = [document(100 + 10 * n, start=7 * n) for n in range(DOCUMENTS)]
    kinds: dict[str, tuple[Callable[[Bundle, Sequence[str]], list[Any]], Sequence[str]]] = {
        "predict, helpdesk messages": (predictions, texts),
        "predict, 100 to 2,090 words": (predictions, long),
        f"upload, {A_MESSAGE} helpdesk messages": (uploads, texts),
        "embed, helpdesk messages": (embeddings, texts),
    }
    result: Figures = {name: cost(make(bundle, given)) for name, (make, given) in kinds.items()}
    columns = ("messages", "bytes", "padded", "more", "sizes", "padded", "bits", "padded")
    shown = table(
        "what a message weighs and what its size tells",
        ("what",),
        columns,
        (
            (
                name,
                found["messages"],
                f"{found['bytes']:.0f}",
                f"{found['padded']:.0f}",
                f"{found['more']:.1%}",
                found["sizes"],
                found["padded_sizes"],
                f"{found['bits']:.2f}",
                f"{found['padded_bits']:.2f}",
            )
            for name, found in result.items()
        ),
    )
    console.publish(arguments, result, shown)


if __name__ == "__main__":
    main()
