"""Values everything else is made of: no I/O, no clock."""
