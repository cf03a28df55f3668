"""Reports: a plan as JSON, CSV or one self-contained HTML page."""
