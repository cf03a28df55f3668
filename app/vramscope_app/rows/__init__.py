"""Pure functions from messages to what tables and trees show; nothing here needs a screen."""
