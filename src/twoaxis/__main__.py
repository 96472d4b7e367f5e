"""``python -m twoaxis`` is the ``twoaxis`` command."""

from twoaxis.cli import main

if __name__ == "__main__":
    main()
