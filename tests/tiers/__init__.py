"""Three tiers of tests, and what keeps them: which test runs where, how long it may take, which part CI runs.

`default` proves every behaviour once, cheaply.  `interop` has other people's clients, suites and servers.  `soak` has
what takes long: kill loops, clusters, partitions, floods, deep searches.
"""
