"""What memory a run needs: pure arithmetic over the program and a scenario, with no device in sight."""
