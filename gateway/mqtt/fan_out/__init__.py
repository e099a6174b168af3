"""From the store's live tail to online subscribers."""
