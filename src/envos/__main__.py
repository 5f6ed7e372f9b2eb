"""`python -m envos` is the command `envos`."""

from envos.cli import main

main()
