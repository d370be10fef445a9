"""Where: which node takes a job. A placement scores the nodes that have room; the lowest score wins."""

SHIPPED = ("first-fit", "consolidating", "best-fit")
"""By name; compiled code knows them by their places here."""
