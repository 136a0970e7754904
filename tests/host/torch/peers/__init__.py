"""How processes of a group reach each other."""
