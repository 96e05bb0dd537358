/* A library that calls back through a frame of ROOM bytes, and takes a stack as it is loaded and unloaded.
 * Built with different values of ROOM above 1 KiB it has the same layout and the same return addresses, so
 * that the loader puts the second one where the first one was: only the frame's size differs. */
void unwind_check_here(void) __attribute__((weak));

__attribute__((noinline)) int call_back(int (*function)(int), int argument)
{
    volatile char room[ROOM];
    room[argument & 255] = 1;
    return function(argument) + room[argument & 255];
}

__attribute__((constructor, destructor)) static void look(void)
{
    volatile char room[ROOM];
    room[0] = 1;
    if (unwind_check_here)
        unwind_check_here();
    room[1] = 1;
}
