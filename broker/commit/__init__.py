"""The commit: what is decided and written together, made durable with one sync, and confirmed by a watermark."""
