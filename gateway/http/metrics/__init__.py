"""The figures of `/metrics`, in Prometheus' text: families, and those of replicas, controllers and MQTT."""
