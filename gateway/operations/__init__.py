"""Operations of the REST API, each written once: a module for each noun.

A noun's module has what goes out (`Shown`), what comes in (`Query`, `Body`), and a class whose methods are the
operations.

ADR 79: an operation is written once.  Invariant: a PUT is idempotent; omitted fields keep their value, or take the
settings' default in a new entity.

A row (`NOUN.get`, `put`, ...) adds method, path, rights and the words of the command line.  Router,
rights, audit, OpenAPI document and commands are made of these rows.

Modules are loaded by the command line, so they import neither FastAPI nor the engine; types of the parts that a noun is
made of stand under TYPE_CHECKING.
"""
