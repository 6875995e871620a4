"""What was promised, and to whom: reports for people and programs."""
