"""Types of accelerators, from the room `_schema` of the collection."""
