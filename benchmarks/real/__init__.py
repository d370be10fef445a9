"""Jobs with real processes beside the simulator, on the traces of Synergy's testbed and of GPEmu's study of it."""
