"""Tables, figures and HTML about runs; reads runs, never runs anything."""
