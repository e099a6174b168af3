"""Planted faults, and whether the default tier finds them: `python -m tests.mutants`.

Each `NN-room-what.patch` is one fault that a developer could make.  Above its diff it says what the fault is, what a
user would lose, and which tests are the nearest that should find it.
"""
