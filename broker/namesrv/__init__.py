"""The name server: the brokers and their topics. It stores nothing, and knows of no other name server."""
