"""`gpumem doctor`: checks whether recording works on this machine, and advises what to do if not."""
