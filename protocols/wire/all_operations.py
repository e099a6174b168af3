"""All operations of the wire, by number: those of the store's ports, and the others."""

from entrepot.protocols.wire import operations, store_rows
from entrepot.protocols.wire.operation import OPERATIONS

__all__ = ["OPERATIONS", "operations", "store_rows"]
