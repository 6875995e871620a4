"""What was guaranteed, and to whom: reports for people and programs."""
