"""The Cloud TPU API: a function for each method, and what Google documents about it.

May import: errors, model, payload, tables.
"""
