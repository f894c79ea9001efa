"""How the workers of a slice pass files on to each other.

May import: act, decide.
"""
