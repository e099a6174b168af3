"""`format("entrepot")`: a topic is a table, read in batches and as a stream by queue offset.

Spark's checkpoint owns the offsets.  What is in here runs in Spark's Python workers, on the driver and on executors.
"""
