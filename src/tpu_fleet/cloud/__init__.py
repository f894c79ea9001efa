"""The local cloud: an emulator of the Cloud TPU API, with machines.

May import: nothing.
"""
