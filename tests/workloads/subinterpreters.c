/* A library that runs Python code in subinterpreters, each in a separate thread, and allocates for
 * them: loaded by tests/workloads/subinterpreters.py. It needs no header of CPython's, so one build
 * works for all versions.
 *
 * Without `_interpreters.create`: its subinterpreters with separate GILs cannot import ctypes in
 * 3.12, so the code gets its functions from here. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct _object PyObject;
typedef struct _thread PyThreadState;
typedef PyObject *(*Method)(PyObject *, PyObject *);

struct PyMethodDef {
    const char *name;
    Method method;
    int flags;
    const char *doc;
};
enum { METH_O = 8 };

/* PyInterpreterConfig of 3.12 to 3.14. */
struct PyInterpreterConfig {
    int use_main_obmalloc, allow_fork, allow_exec, allow_threads, allow_daemon_threads;
    int check_multi_interp_extensions, gil;
};
enum { SHARED_GIL = 1, OWN_GIL = 2 };
struct PyStatus {
    int type;
    const char *function, *message;
    int exit_code;
};

int PyGILState_Ensure(void);
void PyGILState_Release(int);
PyThreadState *PyThreadState_Get(void);
PyThreadState *PyThreadState_Swap(PyThreadState *);
PyThreadState *PyEval_SaveThread(void);
void PyEval_RestoreThread(PyThreadState *);
PyThreadState *Py_NewInterpreter(void);
void Py_EndInterpreter(PyThreadState *);
PyObject *PyEval_GetBuiltins(void);
int PyDict_SetItemString(PyObject *, const char *, PyObject *);
PyObject *PyCFunction_NewEx(struct PyMethodDef *, PyObject *, PyObject *);
int PyRun_SimpleStringFlags(const char *, void *);
long long PyLong_AsLongLong(PyObject *);
PyObject *PyLong_FromLongLong(long long);

static int (*allocate_bytes)(unsigned long long *, size_t);
static int (*make_current)(void *);
static void *context;
static pthread_barrier_t all_here;

/* allocate(bytes) releases the interpreter's lock meanwhile, as a binding does; allocate_held(bytes)
 * does not. */
static long long allocated(PyObject *bytes, int held)
{
    unsigned long long address = 0;
    size_t count = (size_t)PyLong_AsLongLong(bytes);
    PyThreadState *self = held ? NULL : PyEval_SaveThread();
    int result = allocate_bytes(&address, count);
    if (self)
        PyEval_RestoreThread(self);
    return result ? -result : (long long)address;
}

static PyObject *allocate(PyObject *self, PyObject *bytes)
{
    (void)self;
    return PyLong_FromLongLong(allocated(bytes, 0));
}

static PyObject *allocate_held(PyObject *self, PyObject *bytes)
{
    (void)self;
    return PyLong_FromLongLong(allocated(bytes, 1));
}

/* wait(0): until all threads are here, so that they run at once. */
static PyObject *wait_for_all(PyObject *self, PyObject *zero)
{
    (void)self;
    PyThreadState *state = PyEval_SaveThread();
    pthread_barrier_wait(&all_here);
    PyEval_RestoreThread(state);
    return PyLong_FromLongLong(PyLong_AsLongLong(zero));
}

static struct PyMethodDef functions[] = {
    {"allocate", allocate, METH_O, NULL},
    {"allocate_held", allocate_held, METH_O, NULL},
    {"wait_for_all", wait_for_all, METH_O, NULL},
};

static PyThreadState *new_interpreter(int gil)
{
    struct PyStatus (*configured)(PyThreadState **, const struct PyInterpreterConfig *) =
        dlsym(RTLD_DEFAULT, "Py_NewInterpreterFromConfig");
    if (gil != OWN_GIL || !configured)
        return Py_NewInterpreter();
    struct PyInterpreterConfig config = {0, 0, 0, 1, 0, 1, OWN_GIL};
    PyThreadState *made = NULL;
    struct PyStatus status = configured(&made, &config);
    if (status.type != 0) {
        fprintf(stderr, "%s\n", status.message ? status.message : "no interpreter");
        return NULL;
    }
    return made;
}

/* Runs `source` in a new subinterpreter in this thread, which may hold no lock of an interpreter. */
static int run(const char *source, int gil)
{
    int result = -1;
    make_current(context);
    int state = PyGILState_Ensure();
    PyThreadState *own = PyThreadState_Get();
    PyThreadState *sub = new_interpreter(gil);
    if (sub) {
        PyObject *builtins = PyEval_GetBuiltins();
        for (unsigned i = 0; i < sizeof functions / sizeof *functions; i++)
            PyDict_SetItemString(
                builtins, functions[i].name, PyCFunction_NewEx(&functions[i], NULL, NULL));
        result = PyRun_SimpleStringFlags(source, NULL);
        Py_EndInterpreter(sub);
        PyThreadState_Swap(own);
    }
    PyGILState_Release(state);
    return result;
}

struct Task {
    const char *source;
    int gil, result;
};

static void *thread(void *argument)
{
    struct Task *task = argument;
    task->result = run(task->source, task->gil);
    return NULL;
}

/* Runs `count` sources at once, each in a separate subinterpreter and thread; returns whether all
 * ended well. Called without the interpreter's lock. */
int run_at_once(const char **sources, int count, int own_gil)
{
    pthread_t *threads = calloc(count, sizeof *threads);
    struct Task *tasks = calloc(count, sizeof *tasks);
    int good = 1;
    pthread_barrier_init(&all_here, NULL, count);
    for (int i = 0; i < count; i++) {
        tasks[i] = (struct Task){sources[i], own_gil ? OWN_GIL : SHARED_GIL, 0};
        pthread_create(&threads[i], NULL, thread, &tasks[i]);
    }
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        good &= tasks[i].result == 0;
    }
    free(threads);
    free(tasks);
    return good;
}

/* The allocations' context; 0 where all went well. */
int set_up(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!driver)
        return 1;
    int (*initialize)(unsigned) = dlsym(driver, "cuInit");
    int (*retain)(void **, int) = dlsym(driver, "cuDevicePrimaryCtxRetain");
    make_current = dlsym(driver, "cuCtxSetCurrent");
    allocate_bytes = dlsym(driver, "cuMemAlloc_v2");
    return initialize(0) || retain(&context, 0) || make_current(context);
}
