"""What the model is: opening a file or folder, and the compact frozen program compiled from it."""
