"""The tables of the agent's database, and the number of their version."""

from __future__ import annotations

from typing import Final

__all__ = ["SCHEMA", "VERSION"]

VERSION: Final = 12
"""SQLite's ``user_version``. Versions below 12 were never released."""

SCHEMA: Final = """
CREATE TABLE seal (mark BLOB NOT NULL);
CREATE TABLE ledger (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    spent REAL NOT NULL,
    releases INTEGER NOT NULL,
    label_epsilon REAL NOT NULL,
    labels_randomized INTEGER NOT NULL,
    labels_as_they_are INTEGER NOT NULL,
    adapters_private INTEGER NOT NULL,
    adapter_epsilon REAL NOT NULL,
    adapter_delta REAL NOT NULL,
    mac BLOB                           -- keyed hash of the row
);
INSERT INTO ledger VALUES (1, 0, 0, 0, 0, 0, 0, 0, 0, NULL);
CREATE TABLE accounts (
    day INTEGER NOT NULL,              -- since 1970
    name BLOB NOT NULL,                -- keyed hash of the account's name
    sealed BLOB NOT NULL,              -- the account's name
    spent REAL NOT NULL,
    releases INTEGER NOT NULL,
    PRIMARY KEY (day, name)
) WITHOUT ROWID;
CREATE TABLE apps (
    key BLOB PRIMARY KEY,              -- keyed hash of its token
    sealed BLOB NOT NULL,              -- its name, limits, and what it hides
    day INTEGER NOT NULL,              -- since 1970
    spent REAL NOT NULL                -- on that day
) WITHOUT ROWID;
CREATE TABLE words (                   -- the owner's lists; no row until one has a word
    id INTEGER PRIMARY KEY CHECK (id = 1),
    sealed BLOB NOT NULL
);
CREATE TABLE noise_key (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    epoch INTEGER NOT NULL,            -- how many keys there were, this one included
    sealed BLOB NOT NULL               -- 32 bytes
);
CREATE TABLE charged (                 -- what the ledger was charged for, oldest first
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    digest BLOB UNIQUE NOT NULL        -- of settings, bundle and document, under the noise key
);
CREATE TABLE labelled (                -- examples whose labels were charged, oldest first
    number INTEGER PRIMARY KEY,
    key BLOB UNIQUE NOT NULL,          -- keyed hash of words, label and set of labels
    epsilon REAL NOT NULL              -- the largest; infinity where the label left as it is
);
CREATE TABLE customizations (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT UNIQUE NOT NULL,
    request BLOB UNIQUE NOT NULL,      -- keyed hash of the caller's request id
    finished INTEGER NOT NULL,
    sealed BLOB NOT NULL,              -- Customization
    job BLOB NOT NULL,                 -- CreateJobRequest, sealed
    labels BLOB
);
CREATE TABLE outbox (
    customization TEXT NOT NULL,
    example BLOB NOT NULL,             -- its id, drawn at random: the order in which they leave
    sequence INTEGER,                  -- NULL until all have come and are charged: then it is ready
    label BLOB NOT NULL,               -- the one that leaves; until it is ready, the true one
    sealed BLOB NOT NULL,              -- PrivatizedExample without its label
    digest BLOB NOT NULL,              -- as in charged; like the rest, only until it is ready
    charge REAL NOT NULL,
    labelled BLOB NOT NULL,            -- keyed hash of the document's words and the true label
    PRIMARY KEY (customization, example)
) WITHOUT ROWID;
CREATE UNIQUE INDEX outbox_by_sequence ON outbox (customization, sequence);
CREATE TABLE conversations (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- the last used has the largest
    name BLOB UNIQUE NOT NULL,         -- keyed hash of what it is known by
    day INTEGER NOT NULL,              -- of its last use, since 1970
    sealed BLOB NOT NULL               -- what its surrogates stand for, and answers as they came
);
CREATE TABLE answers (
    digest BLOB PRIMARY KEY,           -- keyed hash of an answer as it was shown
    conversation BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE corrections (
    number INTEGER PRIMARY KEY AUTOINCREMENT,  -- the newest has the largest
    adapter BLOB NOT NULL,             -- keyed hash of the owner's name
    text BLOB UNIQUE NOT NULL,         -- keyed hash of adapter and text
    sealed BLOB NOT NULL,              -- LabelledText
    taken TEXT                         -- by the customisation of this id, until it ends
);
CREATE INDEX corrections_by_adapter ON corrections (adapter, number);
"""
