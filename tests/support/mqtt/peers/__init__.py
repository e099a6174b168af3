"""Other people's MQTT clients behind one set of verbs, so that one test asks all of them."""
