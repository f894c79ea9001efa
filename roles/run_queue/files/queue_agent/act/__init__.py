"""What is seen and done on this machine and in the bucket: runs, units, signatures, archives.

May import: decide, shared.
"""
