"""`gpumem plan`: runs a program on a simulated card, and compares its memory with that of a card."""
