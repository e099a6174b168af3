"""MQTT sessions as records in the store: any gateway can go on with any of them."""
