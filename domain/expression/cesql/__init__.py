"""The CloudEvents SQL Expression Language, version 1; `compile_cesql` of `expression.py` is its entry point."""
