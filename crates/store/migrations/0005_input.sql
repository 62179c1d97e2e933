-- Files that were copied in; a later copy to the same place is a further row. The job is the one that a file was
-- copied in for: it may have been refused afterwards, and is then on no record.
CREATE TABLE input (
  ordinal INTEGER PRIMARY KEY,
  workspace TEXT NOT NULL REFERENCES workspace (id) DEFERRABLE INITIALLY DEFERRED,
  source BLOB NOT NULL,
  destination BLOB NOT NULL,
  size_bytes INTEGER NOT NULL,
  sha256 BLOB NOT NULL,
  recorded_at INTEGER NOT NULL,
  job TEXT
) STRICT;
CREATE INDEX input_workspace ON input (workspace);
