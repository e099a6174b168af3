"""Other people's AMQP clients behind one set of verbs, so that one script asks all of them."""
