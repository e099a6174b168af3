"""Leases of gateways in the key-values: they show the gateways that are alive.

| key                 | value                                                    |
|---------------------|----------------------------------------------------------|
| `gateway/<gateway>` | decimal: end of that gateway's lease, epoch milliseconds |

The sweeper of MQTT's sessions renews them; code that keeps something for a gateway reads them.
"""

from __future__ import annotations

from typing import Final

GATEWAY_PREFIX: Final = "gateway/"
DECLARED_DEAD: Final = b"0"
"""Value of a gateway that has left, or that a sweeper takes for dead; the key is deleted later."""
