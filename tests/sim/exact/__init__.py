"""The exact engine: rows as the RTL's, tables as the compiler's."""
