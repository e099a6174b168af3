"""The pieces of a row: path, rights, shapes, refusals; and the table that finds a row by its path."""
