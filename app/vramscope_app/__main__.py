"""``python -m vramscope_app`` starts the window."""

from __future__ import annotations

import sys

from vramscope_app.main import main

if __name__ == "__main__":
    sys.exit(main())
