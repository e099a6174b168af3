"""`format("entrepot")`: a topic is a table, read in batches and as a stream by queue offset.

Spark's checkpoint owns the offsets. This code runs in Spark's Python workers, on the driver and on executors.
"""
