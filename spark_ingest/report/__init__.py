"""A page about a job, without server or Spark: throughput, devices, missing messages, anomalies."""
