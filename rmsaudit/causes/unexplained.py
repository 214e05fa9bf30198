"""No known change of variables re-creates the candidate from the reference.

Then nothing is claimed beyond what was seen: where the two differ, by how much, with which sign, whether by one factor
a row or element by element, and at which scales.

How it shows: the best set of changes that was tried leaves differences in the categories that are named.

What to check: the rows that are named, step by step, on both sides; whether the candidate is an RMSNorm at all; whether
two calls with the same input agree.
"""

VARIABLES: tuple[str, ...] = ()
NEXT_STEP = "Trace the named row on both sides and look for the first step that departs."
