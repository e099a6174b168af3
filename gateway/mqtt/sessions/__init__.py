"""MQTT sessions as records in the store: any gateway can resume any of them."""
