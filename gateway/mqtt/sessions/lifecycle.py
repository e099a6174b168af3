"""The fate of a session and its will when its connection ends, and when another one begins.

| the end                                     | the will                                     | the session            |
|---------------------------------------------|----------------------------------------------|------------------------|
| DISCONNECT 0x00                             | is dropped                                   | lasts for its expiry   |
| anything else, expiry 0                     | goes out at once                             | is over                |
| anything else, will delay 0                 | goes out at once                             | lasts for its expiry   |
| anything else                               | goes out after the delay, or with the end of | lasts for its expiry   |
|                                             | the session, unless a connection resumes it  |                        |
| taken over, and resumed by version 5        | goes out at once if its delay is 0           | goes on                |
| taken over, and not resumed                 | goes out at once                             | is over                |

(MQTT 5.0, 3.1.2.5, 3.1.3.2.2, 3.1.4-3; in version 3 every will has no delay.)
"""

from __future__ import annotations

from entrepot.gateway.mqtt.sessions.record import NEVER_EXPIRES, SessionRecord, WillRecord


def depart(record: SessionRecord, now_ms: int, *, keeps_will: bool) -> WillRecord | None:
    """Note in a record that its connection is over; return the will if it goes out now."""
    will = record.will if keeps_will else None
    record.will = will
    record.owner = ""
    record.disconnected_at_ms = now_ms
    expiry = record.expiry_seconds
    record.expires_at_ms = 0 if expiry == NEVER_EXPIRES else now_ms + expiry * 1000
    if will is None:
        return None
    if not expiry or not will.delay_seconds:
        record.will = None
        return will
    record.will_at_ms = now_ms + min(will.delay_seconds, expiry) * 1000
    return None


def will_at_takeover(old: SessionRecord, *, is_resumed: bool) -> WillRecord | None:
    """The will of an earlier connection that goes out because another one begins, or None."""
    if old.will is None:
        return None
    if not is_resumed:
        return old.will
    return old.will if old.owner and not old.will.delay_seconds else None


def is_over(record: SessionRecord, now_ms: int) -> bool:
    """True if the expiry of a disconnected session has passed."""
    return not record.owner and 0 < record.expires_at_ms <= now_ms
