"""A version of a code tree for all workers of a run: what is declared, the folder, the dialogue.

May import: inventory.
"""
