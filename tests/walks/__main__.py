"""Write the ways on the map: `python -m tests.walks`."""

from tests.walks.shown import write

if __name__ == "__main__":
    write()
