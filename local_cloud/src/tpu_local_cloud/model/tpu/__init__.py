"""Nodes, queued resources, reservations and quota of the Cloud TPU API.

May import: shared.
"""
