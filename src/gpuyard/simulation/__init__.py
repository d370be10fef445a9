"""Virtual time: a whole cluster-year in seconds."""
