"""What the store knows of topics and groups: derived from the log like everything else."""
