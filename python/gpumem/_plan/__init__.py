"""`gpumem plan`: a program is run on a simulated card, and what it needs is compared with what a card has."""
