set snapshot
