/* A library that calls back through a frame of ROOM bytes, and takes a stack as it is loaded and unloaded.
 * Builds with different values of ROOM above 1 KiB have the same layout and return addresses, so the loader puts
 * the second one at the address of the first one: only the frame's size differs. An unwinder that uses the other
 * frame's size finds zeros, which end a stack, and no address at which it would look for the module again. */
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
