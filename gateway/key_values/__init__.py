"""Key-values as a gateway follows and changes them: watches, tables made of them, and compare-and-set."""
