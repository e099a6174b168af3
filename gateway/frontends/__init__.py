"""Protocol events to verbs to replies, a package per byte-stream protocol."""
