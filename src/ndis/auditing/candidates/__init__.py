"""Each file here produces one kind of candidates, the pairs of neighbours that the judge compares with the claim.

`pairs` takes laws that the user gives. `algorithm` runs a function on neighbours of the data. `mechanism` asks a
mechanism for its worst neighbours, and finds those of a sketch exactly. `rules` chooses neighbours of a data set, and
`edits` makes them. A producer returns `Candidates`; the judge decides.
"""
