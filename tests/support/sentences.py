"""Our held-out sentences with the parts of speech of their words."""

from __future__ import annotations

from pathlib import Path

from tests.support.paths import SENTENCES


def sentences() -> list[tuple[list[str], list[str]]]:
    """Words and tags of each sentence."""
    lines = SENTENCES.read_text(encoding="utf-8").splitlines()
    parted = [[word.rpartition("_") for word in line.split()] for line in lines if line[0] != "#"]
    return [([word for word, _, _ in each], [tag for _, _, tag in each]) for each in parted]


def as_treebank(folder: Path) -> Path:
    """The same as a file in CoNLL-U."""
    file = folder / "sentences.conllu"
    with file.open("w", encoding="utf-8") as out:
        for words, tags in sentences():
            print(f"# text = {' '.join(words)}", file=out)
            for place, (word, tag) in enumerate(zip(words, tags, strict=True), start=1):
                print(place, word, "_", tag, *"______", sep="\t", file=out)
            print(file=out)
    return file
