"""Real rows: what entered the norms of a model, and how much an eps matters to them.

rows          a tensor of a file in blocks of whole rows, and the same rows as cases of the battery
law           what eps does to a row, as a function of its sum of squares: in exact numbers, and quickly
sums          the sum of squares of every row, with a bound on its error
distribution  how q and q/eps are distributed, and how many rows lie below a limit, exactly
change        what another eps, or another place for it, changes in every row
survey        both in one pass over the rows of a site
layers        in which layers a handful of sites lie, in words
"""
