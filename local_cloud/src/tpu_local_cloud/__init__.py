"""The local cloud: an emulator of Google's TPU and Compute APIs, with machines.

May import: nothing.
"""
