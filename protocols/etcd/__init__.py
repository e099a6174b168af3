"""etcd's published gRPC protocol: its .proto files without options for Go, and their stubs.

ADR 85: facts in etcd.
"""
