"""A local cloud, its time and its clients in one thread: what a test of many lives runs on."""
