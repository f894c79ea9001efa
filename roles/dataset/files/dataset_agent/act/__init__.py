"""What is downloaded, checked and put in its place.

May import: decide.
"""
