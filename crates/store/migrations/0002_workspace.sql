-- Workspaces and their tombstones; a row is never removed, so that no id is used twice. There is no index on the
-- state: each move would write two more pages, and a filtered listing of 10 000 workspaces scans in milliseconds.
CREATE TABLE workspace (
  ordinal INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  state TEXT NOT NULL,
  provider TEXT NOT NULL,
  profile TEXT NOT NULL,
  image_digest TEXT NOT NULL,
  policy TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
