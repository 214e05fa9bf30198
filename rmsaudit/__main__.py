"""`python -m rmsaudit`."""

from rmsaudit.cli import main

main()
