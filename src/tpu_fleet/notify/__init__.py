"""Notify people of events of a fleet: messages, their formats, limits and ways.

May import: nothing.
"""
