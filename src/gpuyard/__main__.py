"""`python -m gpuyard`."""

from gpuyard.cli import main

if __name__ == "__main__":
    main()
