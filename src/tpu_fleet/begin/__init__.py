"""The beginning of a fleet: what is there already, and the files that answers make.

May import: nothing.
"""
