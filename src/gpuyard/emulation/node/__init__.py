"""What the processes of one emulated machine share: who sits at which GPU, with how much memory, and how fast."""
