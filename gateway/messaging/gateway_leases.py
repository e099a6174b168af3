"""Leases of gateways in the key-values: which of them are alive.

| key                 | value                                                            |
|---------------------|------------------------------------------------------------------|
| `gateway/<gateway>` | decimal: until when that gateway is alive, in epoch milliseconds |

The sweeper of MQTT's sessions renews them; whoever keeps something for a gateway looks at them.
"""

from __future__ import annotations

from typing import Final

GATEWAY_PREFIX: Final = "gateway/"
DECLARED_DEAD: Final = b"0"
"""Value of a gateway that has left, or that a sweeper takes for dead; then the key goes."""
