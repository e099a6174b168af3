"""Every door at once: load by all of them, readers that stay, publishes at the edges of what each can say."""
