"""The dashboard: a web page of every gateway, made of static files that ask `/api/v1` for everything they show."""
