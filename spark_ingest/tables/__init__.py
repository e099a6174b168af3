"""Tables on disk that Spark's tasks write and a driver commits: Delta, Iceberg, Parquet.

A batch's files are staged beside the table, then given to it together with the job's id and the batch's number. A table
keeps the number of the last batch of each job in the same commit as the files, so that a repeated batch is in it once.
"""

from entrepot.spark_ingest.tables.opening import TableFormat, open_table
from entrepot.spark_ingest.tables.staging import StagedFile, Staging
from entrepot.spark_ingest.tables.table import Table, TableError

__all__ = ["StagedFile", "Staging", "Table", "TableError", "TableFormat", "open_table"]
