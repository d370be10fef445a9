"""The node daemon: hears the tasks of its node and tunes those that share a GPU."""
