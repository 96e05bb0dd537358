"""`gpumem doctor`: whether recording works on this machine, and what to do where it does not."""
