"""Commands on the directory of a store that does not run, and on backups."""
