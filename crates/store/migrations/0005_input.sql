-- Files that were copied in; a later copy to the same place is a further row.
CREATE TABLE input (
  ordinal INTEGER PRIMARY KEY,
  workspace TEXT NOT NULL REFERENCES workspace (id) DEFERRABLE INITIALLY DEFERRED,
  source BLOB NOT NULL,
  destination BLOB NOT NULL,
  size_bytes INTEGER NOT NULL,
  sha256 BLOB NOT NULL,
  recorded_at INTEGER NOT NULL
) STRICT;
CREATE INDEX input_workspace ON input (workspace);
