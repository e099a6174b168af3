"""What a topic asks of the events in it: a schema, and that none is taken twice."""
