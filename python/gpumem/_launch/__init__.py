"""Starts programs with libgpumem.so preloaded, and keeps what they recorded."""
