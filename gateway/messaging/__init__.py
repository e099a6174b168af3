"""The verbs, protocol-neutral: what every door does with messages."""
