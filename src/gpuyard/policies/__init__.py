"""Decisions: order/ says which job first, allocate/ says what each gets, published/ holds the originals' variants."""
