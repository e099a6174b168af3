"""Cold messages as a store reads them, wherever they are kept: the port of a tier."""
