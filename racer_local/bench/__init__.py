"""racer-bench: what drafting costs and brings on this machine."""
