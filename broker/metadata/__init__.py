"""The store's topics, groups and key-values: derived from the log like everything else."""
