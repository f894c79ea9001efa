"""Instances, their disks, reservations and quota of Compute Engine.

May import: shared.
"""
