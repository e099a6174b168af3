"""The packages: the rooms as they lie there, and `spark_ingest/discovery` under the name by which Spark finds it."""

from setuptools import find_packages, setup

ROOMS = ("gateway*", "protocols*", "domain*", "store_client*", "broker*", "spark_ingest*")
DISCOVERED = "pyspark_entrepot"

setup(
    packages=[*find_packages(include=ROOMS), DISCOVERED],
    package_data={"gateway.http.documents": ["page/*"]},
    package_dir={DISCOVERED: "spark_ingest/discovery"},
)
