"""Our own nouns, a module for each: shapes, operations, rows.  Beside some stand the pieces that only they use.

ADR 79: an operation is written once. Invariant: each has one row, beside its handler.
"""
