"""Types of accelerators, from the room `_tpu` of the collection."""
