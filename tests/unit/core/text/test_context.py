"""What stands before a word: the word before it in its sentence, whatever lies between."""

from __future__ import annotations

import pytest

from sottovoce.core.text.words import Context, split


def _before(document: str, context: Context | None = None) -> list[tuple[str, str]]:
    words = split(document, ["n't"])
    forms = [word.text.lower() for word in words]
    found = (context or Context()).before(words, forms)
    return [(form, left) for form, left in zip(forms, found, strict=True) if form.isalpha()]


def test_the_word_before_counts_and_a_sentence_begins_with_nothing() -> None:
    assert _before("The pond is cold. It is deep") == [
        ("the", ""),
        ("pond", "the"),
        ("is", "pond"),
        ("cold", "is"),
        ("it", ""),
        ("is", "it"),
        ("deep", "is"),
    ]


@pytest.mark.parametrize(
    "copy",
    [
        "the  pond\n> (is) cold",
        "the pond, is - cold ",
        '\t"The pond is cold',
        "THE POND 'is' cold",
        "Cold? the pond is cold",
        "he wrote: the pond is cold",
        "So it goes… the pond is cold",
        "end。the pond is cold!!",
    ],
)
def test_near_copies_have_the_same_words_before_the_same(copy: str) -> None:
    words = _before(copy)
    start = words.index(("the", ""))
    assert words[start:] == [("the", ""), ("pond", "the"), ("is", "pond"), ("cold", "is")]


def test_windows_are_one_document() -> None:
    context = Context()
    parts = ["The pond ", "is cold", ", very", ". Quite", " so"]
    assert [pair for part in parts for pair in _before(part, context)] == _before("".join(parts))


def test_forms_are_one_a_word() -> None:
    with pytest.raises(ValueError, match="zip"):
        Context().before(split("the pond"), ["the"])
