/* Loads libpython as a plugin would, with RTLD_LOCAL, and takes a Python stack before, inside and
 * after it. Arguments: the probe library, libpython. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static unsigned long long (*probe_take)(unsigned);
static int taken;
static unsigned long long inside;

static int called_by_the_interpreter(void *unused)
{
    (void)unused;
    inside = probe_take(1);
    taken = 1;
    return 0;
}

static void *need(void *library, const char *name)
{
    void *found = library ? dlsym(library, name) : NULL;
    if (!found) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return found;
}

static void say(const char *when, unsigned long long stack)
{
    printf("%s: %s\n", when, stack ? "some" : "none");
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    probe_take = need(dlopen(argv[1], RTLD_NOW | RTLD_LOCAL), "probe_take");
    say("before", probe_take(1));

    void *python = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    void (*initialize)(int) = need(python, "Py_InitializeEx");
    int (*pending)(int (*)(void *), void *) = need(python, "Py_AddPendingCall");
    int (*run)(const char *) = need(python, "PyRun_SimpleString");
    int (*finalize)(void) = need(python, "Py_FinalizeEx");
    initialize(0);
    if (pending(called_by_the_interpreter, NULL) != 0 ||
        run("def f():\n    for i in range(100000): pass\nf()\n") != 0 || !taken)
        return 1;
    say("inside", inside);
    finalize();
    say("after", probe_take(1));
    return 0;
}
