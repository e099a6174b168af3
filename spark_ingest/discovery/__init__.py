"""The package installed as `pyspark_entrepot`: Spark registers the data source of every module named `pyspark_...`.

ADR 24: Spark reads by offset.
"""

from entrepot.spark_ingest.source.data_source import EntrepotDataSource as DefaultSource

__all__ = ["DefaultSource"]
