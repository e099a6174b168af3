"""etcd: the real one as processes, and a small server that plays it in the test's process."""
