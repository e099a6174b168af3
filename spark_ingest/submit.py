"""The job for spark-submit, which wants a file: `spark-submit submit.py --topic factory --table /lake/factory`."""

from entrepot.spark_ingest.cli import app

if __name__ == "__main__":
    app(prog_name="entrepot ingest")
