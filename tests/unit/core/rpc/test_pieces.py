"""A text that arrives in pieces is whole in the end, whatever its script."""

from hypothesis import given
from hypothesis import strategies as st

from sottovoce.core.rpc.streams import Pieces


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_pieces_join(texts: list[str]) -> None:
    pieces = Pieces()
    for text in texts:
        pieces.add(text)
    assert pieces.text() == "".join(texts)
    assert bool(pieces) == any(texts)
