"""Accelerator and machine types of Google: links to the files of the collection tpu.fleet.

May import: nothing.
"""
