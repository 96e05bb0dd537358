/* A library that calls back, to be loaded and unloaded: built with different values of ANSWER it has the
 * same layout, so that the loader puts the second one where the first one was. */
unsigned long long call_back(unsigned long long (*function)(unsigned), unsigned argument)
{
    unsigned long long result = function(argument);
    __asm__ volatile("" : "+r"(result)); /* no tail call: this frame must be on the stack */
    return result;
}

int answer(void)
{
    return ANSWER;
}
