-- What this file is, in one row; and the one append-only log, of which every journal is a stream.
CREATE TABLE meta (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  schema TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE log (
  ordinal INTEGER PRIMARY KEY,
  stream TEXT NOT NULL,
  seq INTEGER NOT NULL,
  ts INTEGER NOT NULL,
  kind TEXT NOT NULL,
  body TEXT NOT NULL,
  prev_hash BLOB NOT NULL,
  UNIQUE (stream, seq)
) STRICT;
