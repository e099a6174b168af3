"""Half messages: the parts of transactions."""
