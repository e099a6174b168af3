"""One request, from head to answer: who asks, what is refused and how, what is served at once."""
