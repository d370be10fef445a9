"""One GPU and the processes that launch on it, kernel by kernel in virtual time."""
