"""The tools of the paper that only exhibits and claims need. The package computes δ without them."""
