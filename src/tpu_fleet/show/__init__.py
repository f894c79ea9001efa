"""How what was found is shown: tables, output of many workers, costs.

May import: workers.
"""
