"""Which sets are fetched from where, under which licence, into which files; and which are not.

No address was asked from where this was written, nor compared with what its makers say; so no
SHA-256 is known but of what was fetched before (`fetched.json` of the data folder), and a file in
another form than expected is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bench.fetch.forms import Form, as_published, cola, entities, glue, trec

__all__ = ["LEFT_OUT", "SETS", "Source", "Wanted"]

_UD: Final = "https://raw.githubusercontent.com/UniversalDependencies"
_EWT: Final = f"{_UD}/UD_English-EWT/r2.15/en_ewt-ud"
_UNER: Final = "https://raw.githubusercontent.com/UniversalNER/UNER_English-EWT/master/en_ewt-ud"
_WNUT: Final = "https://noisy-text.github.io/2017/files"
_GLUE: Final = "https://dl.fbaipublicfiles.com/glue/data"
_PAIRS: Final = (("sentence1", "sentence2", "label"), ("text_a", "text_b", "label"))
_SENTENCES: Final = (("sentence", "label"), ("text", "label"))


@dataclass(frozen=True)
class Wanted:
    """A file of the data folder, within its set's: where it comes from, and in which form."""

    name: str
    url: str
    form: Form
    sha256: str = ""


@dataclass(frozen=True)
class Source:
    """A set: what its makers say of its use, whether that must be accepted, and its files."""

    licence: str
    asks: bool
    files: tuple[Wanted, ...]


SETS: Final = {
    "ud_ewt": Source(
        "CC BY-SA 4.0",
        False,
        tuple(
            Wanted(f"{part}.conllu.gz", f"{_EWT}-{part}.conllu", as_published)
            for part in ("train", "dev", "test")
        ),
    ),
    "uner_ewt": Source(
        "CC BY-SA 4.0",
        False,
        tuple(
            Wanted(f"{part}.jsonl.gz", f"{_UNER}-{part}.iob2", entities(1, 2))
            for part in ("dev", "test")
        ),
    ),
    "wnut17": Source(
        "CC BY 4.0",
        False,
        (
            Wanted("train.jsonl.gz", f"{_WNUT}/wnut17train.conll", entities(0, 1)),
            Wanted("dev.jsonl.gz", f"{_WNUT}/emerging.dev.conll", entities(0, 1)),
        ),
    ),
    "sst2": Source(
        "none stated; for research",
        True,
        tuple(
            Wanted(f"{part}.tsv.gz", f"{_GLUE}/SST-2.zip", glue(f"SST-2/{part}.tsv", *_SENTENCES))
            for part in ("train", "dev")
        ),
    ),
    "rte": Source(
        "none stated; for research",
        True,
        (Wanted("train.tsv.gz", f"{_GLUE}/RTE.zip", glue("RTE/train.tsv", *_PAIRS)),),
    ),
    "cola": Source(
        "for research",
        True,
        tuple(
            Wanted(
                f"{part}.tsv.gz",
                "https://nyu-mll.github.io/CoLA/cola_public_1.1.zip",
                cola(f"cola_public/raw/in_domain_{part}.tsv"),
            )
            for part in ("train", "dev")
        ),
    ),
    "trec": Source(
        "none stated",
        True,
        (
            Wanted(
                "train.tsv.gz",
                "https://cogcomp.seas.upenn.edu/Data/QA/QC/train_5500.label",
                trec,
            ),
        ),
    ),
}

LEFT_OUT: Final = {
    "ud_gum": "which release the figures are of is not known; any CoNLL-U of UD_English-GUM as"
    " train.conllu.gz and dev.conllu.gz will do, and gives other figures",
    "agnews": "10,001 descriptions chosen from the whole in a way that is not written down",
    "dbpedia": "12,600 and 700 abstracts chosen from the whole in a way that is not written down",
    "mrpc": "its makers give it out as an installer for Windows; columns text_a, text_b, label",
    "pii": "made by a generator (presidio-research) without a seed",
    "webnlg": "its release of 2017 comes as many XML files; one JSON object an entry",
    "pos_masc": "comes by documents, in several formats",
    "movie_reviews": "how it was split is not written down",
    "blogs": "real people's posts; its makers ask to be asked",
    "text": "books and speeches of many hosts, a paragraph a line",
}
"""What the benches read as well, and why nobody fetches it."""
