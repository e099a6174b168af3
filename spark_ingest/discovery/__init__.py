"""The package installed as `pyspark_entrepot`: Spark registers the data source of every module named `pyspark_...`."""

from entrepot.spark_ingest.source.data_source import EntrepotDataSource as DefaultSource

__all__ = ["DefaultSource"]
