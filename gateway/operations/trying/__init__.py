"""A test message: sent by the rules of any door, with the conversion, checks and rights of its clients."""
