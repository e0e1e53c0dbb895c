"""Find the worst δ(ε) over an envelope: all that a model says about its neighbours, turned into a certified number."""
