"""What each operator means: one table of rows with kernel, scratch, views, aliasing and capture support."""
