"""`python -m gateway.cli`: the same as the console script."""

from entrepot.gateway.cli.app import main

main()
