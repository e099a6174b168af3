"""Controllers: elections without an operator."""
