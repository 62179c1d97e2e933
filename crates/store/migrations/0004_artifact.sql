-- Declared outputs; a name is taken once in its workspace.
CREATE TABLE artifact (
  ordinal INTEGER PRIMARY KEY,
  workspace TEXT NOT NULL REFERENCES workspace (id) DEFERRABLE INITIALLY DEFERRED,
  name BLOB NOT NULL,
  purpose BLOB NOT NULL,
  media_type TEXT NOT NULL,
  job TEXT NOT NULL REFERENCES job (id) DEFERRABLE INITIALLY DEFERRED,
  retention TEXT NOT NULL,
  export TEXT,
  UNIQUE (workspace, name)
) STRICT;
