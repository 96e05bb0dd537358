"""`gpumem plan`: a dry run of an unchanged program on the simulator."""
