"""Compare models, persons and plans; nothing here is needed for a release."""
