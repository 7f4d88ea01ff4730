"""Two runs beside each other (`diff.diff`), and tables for elsewhere (`export.write_table`)."""
