"""Our own nouns, a module for each: shapes, operations, rows.  Beside some stand the pieces that only they use."""
