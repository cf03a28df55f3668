"""The frozen command line's first module: also the engine that the window starts."""

import sys

from vramscope.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
