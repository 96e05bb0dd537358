/* A library that calls back through a frame of ROOM bytes, and takes a stack as it is loaded and unloaded.
 * Built with different values of ROOM above 1 KiB it has the same layout and the same return addresses, so
 * that the loader puts the second one where the first one was: only the frame's size differs. Whoever takes the
 * frame for another one's finds zeros, with which a stack ends: no address that would make him look again. */
void unwind_check_here(void) __attribute__((weak));

#define WORDS (ROOM / sizeof(void *))

__attribute__((noinline)) int call_back(int (*function)(int), int argument)
{
    void *volatile room[WORDS];
    for (unsigned i = 0; i < WORDS; i++)
        room[i] = 0;
    return function(argument) + (room[argument & 127] != 0);
}

__attribute__((constructor, destructor)) static void look(void)
{
    void *volatile room[WORDS];
    for (unsigned i = 0; i < WORDS; i++)
        room[i] = 0;
    if (unwind_check_here)
        unwind_check_here();
    room[1] = (void *)1;
}
