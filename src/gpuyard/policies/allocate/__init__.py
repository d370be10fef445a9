"""What each job gets: admission and placement, then the division of what stands beside the GPUs."""
