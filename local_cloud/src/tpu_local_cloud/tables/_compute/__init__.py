"""Types of machines, from the room `_compute` of the collection."""
