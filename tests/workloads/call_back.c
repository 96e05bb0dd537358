/* A library that calls back, to be loaded and unloaded. Builds with different values of ANSWER have
 * the same layout, so the loader puts the second one at the address of the first one. */
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
