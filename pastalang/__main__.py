"""`python -m pastalang` is the `pasta` command."""

from pastalang.cli.main import main

if __name__ == "__main__":
    main()
