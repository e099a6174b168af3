"""The packages: `entrepot` with its rooms, and `spark_ingest/discovery` under the name by which Spark finds it."""

from setuptools import find_packages, setup

DISCOVERED = "pyspark_entrepot"

setup(
    packages=[*find_packages(include=("entrepot*",)), DISCOVERED],
    package_data={
        "entrepot": ["py.typed"],
        "entrepot.gateway.http.documents": ["page/*"],
        "entrepot.gateway.http.dashboard": ["page/*", "page/*/*"],
    },
    package_dir={DISCOVERED: "spark_ingest/discovery"},
)
