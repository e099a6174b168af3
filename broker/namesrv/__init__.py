"""The name server: who the brokers are and what they have.  It keeps nothing, and knows of no other name server."""
