"""What a row is made of: path, rights, shapes, refusals; and the table that finds a row by its path."""
