-- When a tombstone was pruned, and the ids of its jobs: their rows are gone, and no id is used twice.
ALTER TABLE workspace ADD COLUMN pruned_at INTEGER;
CREATE TABLE pruned_job (
  id TEXT NOT NULL PRIMARY KEY,
  workspace TEXT NOT NULL
) STRICT, WITHOUT ROWID;
