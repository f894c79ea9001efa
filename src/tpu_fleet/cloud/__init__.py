"""A local stand-in for the Cloud TPU API, with machines behind it.

May import: nothing.
"""
