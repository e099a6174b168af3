"""Filter expressions: tags, SQL92, sub-topics."""
