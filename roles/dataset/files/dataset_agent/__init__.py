"""Stage the data sets of one TPU slice: downloaded once, passed on, checked. Standard library only.

It runs without root's rights from the moment in which it reads what others have written.
"""
