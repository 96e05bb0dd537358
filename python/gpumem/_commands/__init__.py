"""Commands of the command line that need Python, except `run`, `plan` and `whatif`. No command uses another one."""
