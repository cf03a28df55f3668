"""Many update calls do not break the binding."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from PySide6.QtWidgets import QApplication, QLabel
application = QApplication([])
label = QLabel("text")
label.show()
before = sys.getrefcount(None)
for _ in range(20_000):
    label.update()
    label.setVisible(True)
lost = before - sys.getrefcount(None)
application.processEvents()
print("lost", lost)
"""


def test_twenty_thousand_void_calls_drop_no_reference_to_none() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert abs(int(done.stdout.split()[-1])) < 200
