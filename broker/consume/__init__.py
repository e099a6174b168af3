"""Pop consumption: windows over the queues, receipt handles, dead letters, long polling, tails."""
