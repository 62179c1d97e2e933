-- What an owner says about a workspace, and how a job was asked to run; nothing where there is nothing to say.
ALTER TABLE workspace ADD COLUMN about TEXT;
ALTER TABLE job ADD COLUMN terms TEXT;
