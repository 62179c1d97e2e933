-- Jobs, in flight (no status) or over; a row is never removed, so that no id is used twice.
CREATE TABLE job (
  ordinal INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  workspace TEXT NOT NULL REFERENCES workspace (id) DEFERRABLE INITIALLY DEFERRED,
  status TEXT,
  argv TEXT NOT NULL,
  env_names TEXT NOT NULL,
  env_files TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  outcome TEXT,
  package TEXT
) STRICT;
CREATE INDEX job_workspace ON job (workspace);
