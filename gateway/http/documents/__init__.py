"""The OpenAPI and AsyncAPI documents: requests and answers of each operation, in tables."""
