"""Virtual hosts: exchanges, queues and bindings, in the store's key-values and as this gateway sees them."""
