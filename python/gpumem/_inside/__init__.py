"""What runs inside the program: the functions of libgpumem.so, scopes and counters, names of modules, roles of tensors."""
