"""Output: tables, output of many workers, costs.

May import: contract, workers.
"""
