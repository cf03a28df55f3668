"""What-if planning: a model as if it were exported otherwise, one pure function a rewrite."""
