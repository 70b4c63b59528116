"""``python -m quoracy``: the command line, where the ``quoracy`` script is not on the path."""

from quoracy.cli import main

if __name__ == "__main__":
    main()
