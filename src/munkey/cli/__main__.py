"""`python -m munkey.cli` is `munkey`."""

from munkey.cli.app import main

if __name__ == "__main__":
    main()
