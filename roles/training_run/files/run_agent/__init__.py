"""Keep one training run alive on every worker of a TPU slice. Standard library only."""
