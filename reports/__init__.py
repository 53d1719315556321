"""What is shown: the record, tables, files."""
