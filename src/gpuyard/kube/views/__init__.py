"""What people are shown of a cluster, and the snapshots that are made of it."""
