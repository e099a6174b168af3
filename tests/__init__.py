"""The tests: unit, wire, contract, crash, e2e; `support` is what they share."""
