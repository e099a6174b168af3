"""The table of failures in docs/deployment.md, made from the tests that prove its rows.

A row stands at its test, as `@pytest.mark.failure(...)`; `make docs` writes the table.
"""
