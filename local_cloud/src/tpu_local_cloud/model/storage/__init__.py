"""Buckets of Cloud Storage: objects with their contents on disk, uploads, lists, lifecycle.

May import: shared.
"""
