"""`python -m gateway.cli`: the same as the console script."""

from gateway.cli.app import main

main()
