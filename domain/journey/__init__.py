"""The journey of a message: every step that is known of it, in order of time, and what is not known.

`facts` is what was found in the log, in traces and in tables; `telling.journey_of` makes the journey of it.  Everything
is pure: the same facts give the same journey, and no hop without a fact.
"""
