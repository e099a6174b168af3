"""A page about a job that needs neither a server nor Spark: what came, how fast, from whom, what is missing or odd."""
