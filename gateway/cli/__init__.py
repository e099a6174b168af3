"""The command `entrepot`: one file for each noun."""
