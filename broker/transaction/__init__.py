"""Half messages: what transactions are made of."""
