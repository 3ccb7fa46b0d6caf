"""Tables in files, with the labels beside them: `tables` reads and writes every format."""
