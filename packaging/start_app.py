"""The frozen window's first module."""

import sys

from vramscope_app.main import main

if __name__ == "__main__":
    sys.exit(main())
