"""How far a candidate lies from a reference: numbers that merge, and the few elements that any limit can be judged by.

Without numpy, for the half of rmsaudit that only reads records:
limits        what a rule with numbers allows, decided exactly
element       one compared element, with its place
frontier      the few elements that decide for all
measurement   what was measured, as plain numbers

With numpy:
statistics    `measure`: two tensors to a `Measurement`, block by block
distance      `distance`: one side against the oracle, to a `Distance`
tally         the general path: any elements, any dtypes, non-finite values
dense         the quick path: blocks of one dtype in which many elements differ
prefilter     the frontier of arrays
row_factors   candidate ÷ reference, row by row
ulp           steps between two values of one format
violations    how many elements a limit refuses
"""
