"""The OpenAPI and AsyncAPI documents: what each operation takes and answers, in tables beside the handlers."""
