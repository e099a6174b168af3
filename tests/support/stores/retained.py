"""What is retained, in one list: tests keep little."""

from __future__ import annotations

from entrepot.gateway.retained.retained import RetainedMessages


def names_matching(retained: RetainedMessages, topic_filter: str) -> list[str]:
    """Names that match a filter, in no order."""
    return [name for page in retained.pages(topic_filter) for name in page]
