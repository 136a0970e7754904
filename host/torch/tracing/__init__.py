"""What is seen of a group from outside.

`dump` writes what is under way, also where a group fails or one of `signals` comes. `profiles` puts
collectives into PyTorch's profiles.
"""
