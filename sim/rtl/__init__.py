"""The rtl engine: hosts that load tables and run collectives."""
