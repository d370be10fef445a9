"""What is installed, with which rights, and how."""
