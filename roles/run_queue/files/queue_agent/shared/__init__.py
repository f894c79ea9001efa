"""Modules of the collection, by links, in rooms of the same names, as they import each other.

May import: nothing.
"""
