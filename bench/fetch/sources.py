"""Data sets with their source, licence and files, and the sets that are not fetched.

The addresses were not tested when this was written. So the SHA-256 of a fetched file is known only
from an earlier run (`fetched.json` in the data folder). A file in another form is refused.
`EDITIONS` has the SHA-256 of the files behind the docs' figures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from bench.fetch.forms import (
    Form,
    as_published,
    cola,
    drawn,
    entities,
    glue,
    paraphrases,
    reviews,
    trec,
    turns,
)
from bench.fetch.synthetic import synthetic

__all__ = ["EDITIONS", "LEFT_OUT", "MADE", "SEED", "SETS", "Source", "Wanted"]

SEED: Final = 1
"""Seed of everything that is drawn or made here."""


_UD: Final = "https://raw.githubusercontent.com/UniversalDependencies"
_EWT: Final = f"{_UD}/UD_English-EWT/r2.15/en_ewt-ud"
_UNER: Final = "https://raw.githubusercontent.com/UniversalNER/UNER_English-EWT/master/en_ewt-ud"
_WNUT: Final = "https://noisy-text.github.io/2017/files"
_GUM: Final = f"{_UD}/UD_English-GUM/r2.16/en_gum-ud"
_NLTK: Final = "https://raw.githubusercontent.com/nltk/nltk_data/gh-pages/packages/corpora"
_ZHANG: Final = "https://s3.amazonaws.com/fast-ai-nlp"
_LM_SYS: Final = "https://raw.githubusercontent.com/lm-sys/FastChat/main/fastchat/llm_judge/data"
_ARENA: Final = "https://raw.githubusercontent.com/lmarena/arena-hard-auto/main/data"
_BTC: Final = "https://raw.githubusercontent.com/GateNLP/broad_twitter_corpus/master"
_NEWS: Final = ("World", "Sports", "Business", "Sci/Tech")
_GLUE: Final = "https://dl.fbaipublicfiles.com/glue/data"
_PAIRS: Final = (("sentence1", "sentence2", "label"), ("text_a", "text_b", "label"))
_SENTENCES: Final = (("sentence", "label"), ("text", "label"))


@dataclass(frozen=True)
class Wanted:
    """A file of a set in the data folder: its source and its form."""

    name: str
    url: str
    form: Form
    sha256: str = ""


@dataclass(frozen=True)
class Source:
    """A set: its terms of use, whether the user must accept them, and its files."""

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
    "ud_gum": Source(
        "CC BY-NC-SA 4.0",
        True,
        tuple(
            Wanted(f"{part}.conllu.gz", f"{_GUM}-{part}.conllu", as_published)
            for part in ("train", "dev")
        ),
    ),
    "btc": Source(
        "CC BY 4.0",
        False,
        (Wanted("dev.jsonl.gz", f"{_BTC}/h.conll", entities(0, 1, start=1000)),),
    ),
    "prompts": Source(
        "Apache 2.0",
        False,
        (
            Wanted("vicuna.jsonl.gz", f"{_LM_SYS}/vicuna_bench/question.jsonl", turns("vicuna")),
            Wanted(
                "arena_hard_v2.jsonl.gz",
                f"{_ARENA}/arena-hard-v2.0/question.jsonl",
                turns("arena2"),
            ),
        ),
    ),
    "mrpc": Source(
        "for non-commercial use",
        True,
        (
            Wanted(
                "train.tsv.gz",
                "https://dl.fbaipublicfiles.com/senteval/senteval_data/msr_paraphrase_train.txt",
                paraphrases,
            ),
        ),
    ),
    "agnews": Source(
        "for non-commercial use",
        True,
        (
            Wanted(
                "train.tsv.gz",
                f"{_ZHANG}/ag_news_csv.tgz",
                drawn("ag_news_csv/train.csv", 2500, SEED, _NEWS),
            ),
        ),
    ),
    "dbpedia": Source(
        "CC BY-SA 3.0",
        False,
        (
            Wanted(
                "train.tsv.gz",
                f"{_ZHANG}/dbpedia_csv.tgz",
                drawn("dbpedia_csv/train.csv", 900, SEED),
            ),
            Wanted(
                "dev.tsv.gz", f"{_ZHANG}/dbpedia_csv.tgz", drawn("dbpedia_csv/test.csv", 50, SEED)
            ),
        ),
    ),
    "movie_reviews": Source(
        "CC BY 4.0",
        False,
        (
            Wanted("train.tsv.gz", f"{_NLTK}/movie_reviews.zip", reviews(range(900))),
            Wanted("test.tsv.gz", f"{_NLTK}/movie_reviews.zip", reviews(range(900, 1000))),
        ),
    ),
}

MADE: Final[dict[str, dict[str, Callable[[], bytes]]]] = {
    "synthetic": {"dev.jsonl.gz": lambda: synthetic(SEED)}
}
"""Sets that are made here from `SEED`: their files, and the function that makes each."""

LEFT_OUT: Final = {
    "pii": "made by presidio-research (MIT) without a seed; its public twin is `synthetic`",
    "prompts/marked": "marked by hand for this project and not published; the prompts of"
    " bench/written_prompts.txt are its public twin",
    "blogs": "real people's posts, for research (Blog Authorship Corpus, Bar-Ilan University); its"
    " makers ask to be asked, so there is no twin",
    "webnlg": "CC BY-NC-SA 4.0, https://webnlg-challenge.loria.fr: one JSON object an"
    " entry with category, eid, size, triples and texts, as train.jsonl.gz and dev.jsonl.gz",
    "pos_masc": "the tagged MASC, https://anc.org/data/masc/, open: only trains the shipped models;"
    " JSON lines with tokens, xpos and doc",
    "crossner": "MIT, only trains the shipped context finder; JSON lines with tokens and ner_tags",
    "wikigold": "CC BY 4.0, only trains the shipped context finder; in the same form",
    "sec_filings": "CC BY 3.0, only trains the shipped models; in the same form",
    "text": "books and speeches of many hosts, a paragraph a line; only train the shipped models:"
    " https://openstax.org (CC BY 4.0), https://www.gutenberg.org and presidents' addresses (public"
    " domain), WikiText-2 (CC BY-SA)",
}
"""Other sets that the benches and trainings read, and the reason for not fetching them."""

EDITIONS: Final = {
    "ud_ewt/train.conllu.gz": "3fb78e2b55482c8e",
    "ud_ewt/dev.conllu.gz": "531a54ff90d6ab12",
    "ud_ewt/test.conllu.gz": "e266e515a0a75476",
    "ud_gum/train.conllu.gz": "f8bd44d636402110",
    "ud_gum/dev.conllu.gz": "581997015a2d878a",
    "uner_ewt/dev.jsonl.gz": "38b6d0a543d93dd3",
    "uner_ewt/test.jsonl.gz": "559072e9f02ce652",
    "wnut17/train.jsonl.gz": "ac11a571381b48c1",
    "wnut17/dev.jsonl.gz": "56c4c7933df9c59a",
    "btc/dev.jsonl.gz": "a509af8a8a4e2bb3",
    "prompts/vicuna.jsonl.gz": "67a673527683a438",
    "prompts/arena_hard_v2.jsonl.gz": "87f2a9d59d78d82a",
    "sst2/train.tsv.gz": "067bc3996295ac3f",
    "sst2/dev.tsv.gz": "bbdb730c97f15f8b",
    "rte/train.tsv.gz": "277d0441ecd6cb16",
    "cola/train.tsv.gz": "85ff53d3c94d0f03",
    "cola/dev.tsv.gz": "cb808e4a696e99b9",
    "trec/train.tsv.gz": "202ac2c1380123c3",
    "mrpc/train.tsv.gz": "6e02d820d5138a23",
    "agnews/train.tsv.gz": "b49c660f2d520689",
    "dbpedia/train.tsv.gz": "f3ea7e5a6ccb2db6",
    "dbpedia/dev.tsv.gz": "a0c6f4001a7fcdd3",
    "movie_reviews/train.tsv.gz": "bed28d77c9e791ac",
    "movie_reviews/test.tsv.gz": "ed1db0030898eae1",
    "synthetic/dev.jsonl.gz": "074685a53fe39ebf",
}
"""First digits of the SHA-256, before gzip, of the files behind the docs' figures.

Figures of another edition differ a little. The selection of `agnews`, `dbpedia`, `btc` and
Arena-Hard's prompts was not recorded. A fetched file is therefore always another selection.
"""
