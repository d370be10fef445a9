"""A client process, as the load generator starts it."""

from gpuyard.serving.load.client import main

if __name__ == "__main__":
    main()
