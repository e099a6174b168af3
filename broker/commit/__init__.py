"""The commit: what is decided and written together, made durable with one sync, and confirmed by a watermark.

`group_commit.py` tells how it goes, and why.
"""
