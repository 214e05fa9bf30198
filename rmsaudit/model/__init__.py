"""Whole models: every norm of a checkpoint beside the one of its conversion.

sites.py     one norm on both sides, and how the candidate's is restated in the reference's words
matched.py   two models and their norms, side by side
relation.py  what the candidate's gains are of the reference's, other sites included
names.py     many module paths in few words
weighing.py  real rows: how far both sides are apart on them, and how much a difference of eps weighs
structure.py what is wrong before any number
explained.py why sites differ, in findings
rows.py      the few rows of the table
work.py      one portion of the work, which any executor can run
executing.py pieces of work through any executor, in order; what is lost with a worker is done again
audit.py     the whole: sites in, one record out
"""
