"""Read tables: files, frames, lists, pieces of large tables, and Spark."""
