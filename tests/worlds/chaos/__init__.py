"""Faults on the local cloud while training goes on: which, how, and what has to be true after."""
