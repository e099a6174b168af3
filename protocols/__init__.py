"""One package per protocol: codec, errors and connection rules, none of which do any I/O of their own."""
