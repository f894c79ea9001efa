"""Take submitted runs out of a queue in a bucket, for one TPU slice. Standard library only.

It starts them with the run agent, whose modules it uses (`run_agent`, beside it on a machine).
"""
