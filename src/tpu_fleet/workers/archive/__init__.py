"""What runs have left in buckets, read without their machines.

May import: inventory.
"""
