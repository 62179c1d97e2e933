-- Open intents only: closing one removes its row, so that reconciliation reads what is open and nothing else. The
-- table is as small as that, so an index would only be one more page to write.
CREATE TABLE intent (
  ordinal INTEGER PRIMARY KEY,
  id TEXT NOT NULL,
  kind TEXT NOT NULL,
  workspace TEXT NOT NULL,
  job TEXT,
  detail TEXT NOT NULL,
  opened_at INTEGER NOT NULL
) STRICT;
