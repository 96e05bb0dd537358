// A zoo of native stacks, each taken where the program calls unwind_check_here (tests/unwind-check).
// Usage: unwind_stacks CASE [LIBRARY…]; `all` runs every case that needs no library.

#include <alloca.h>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

extern "C" void unwind_check_here() __attribute__((weak));

// Calls function(argument) on another stack, whose top is `top`, with an entry in its unwind table.
extern "C" void call_on(void (*function)(int), int argument, char *top);
asm(R"(
    .text
    .type call_on, @function
call_on:
    .cfi_startproc
    pushq %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset %rbp, -16
    movq %rsp, %rbp
    .cfi_def_cfa_register %rbp
    movq %rdx, %rsp
    movq %rdi, %rax
    movl %esi, %edi
    call *%rax
    leaveq
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_endproc
    .size call_on, .-call_on
)");

// Calls function(argument) from a frame that only another register can express.
extern "C" void call_by_rbx(void (*function)(int), int argument);
asm(R"(
    .text
    .type call_by_rbx, @function
call_by_rbx:
    .cfi_startproc
    pushq %rbx
    .cfi_def_cfa_offset 16
    .cfi_offset %rbx, -16
    movq %rsp, %rbx
    .cfi_def_cfa_register %rbx
    andq $-64, %rsp
    movq %rdi, %rax
    movl %esi, %edi
    call *%rax
    movq %rbx, %rsp
    popq %rbx
    .cfi_def_cfa %rsp, 8
    ret
    .cfi_endproc
    .size call_by_rbx, .-call_by_rbx
)");

namespace {

volatile int sink;

__attribute__((noinline)) void look() {
    if (unwind_check_here)
        unwind_check_here();
    sink = sink + 1; // no tail call: the frame stays
}

// ---- exceptions: before, in destructors while one is on its way, in handlers, afterwards

struct Looks {
    int n;
    explicit Looks(int n) : n(n) { look(); }
    ~Looks() {
        look();
        sink = sink + n;
    }
};

struct Base {
    virtual ~Base() = default;
    virtual int down(int depth) = 0;
};

struct Thrower : Base {
    __attribute__((noinline)) int down(int depth) override {
        Looks looks(depth);
        std::string text(static_cast<size_t>(depth + 20), 'x'); // memory that is freed on the way
        if (depth == 0)
            throw std::runtime_error(text);
        try {
            return down(depth - 1) + looks.n;
        } catch (const std::logic_error &) {
            return 0;
        } catch (const std::runtime_error &) {
            look();
            if (depth % 3 == 0)
                throw;
            if (depth % 7 == 0)
                throw std::runtime_error("another, while the first is handled");
            if (depth % 11 == 0)
                return depth;
            throw;
        }
    }
};

int compare_and_throw(const void *a, const void *b) {
    look();
    int x = *static_cast<const int *>(a), y = *static_cast<const int *>(b);
    if (x == 13 || y == 13)
        throw 13; // through a frame of the C library
    return x - y;
}

void exceptions() {
    Thrower thrower;
    for (int i = 0; i < 60; i++) {
        look();
        try {
            thrower.down(3 + i % 40);
        } catch (const std::exception &) {
            look();
        }
        int numbers[40];
        for (int k = 0; k < 40; k++)
            numbers[k] = (k * 7 + i) % 40;
        try {
            qsort(numbers, 40, sizeof *numbers, compare_and_throw);
        } catch (int) {
            look();
        }
        look();
    }
}

// ---- frames that are not of a fixed size

__attribute__((noinline)) int with_alloca(int bytes, int depth);

__attribute__((noinline)) int aligned(int bytes, int depth) {
    alignas(128) volatile char room[256];
    room[depth & 255] = 1;
    look();
    int below = depth ? with_alloca(bytes, depth - 1) : 0;
    look();
    return below + room[depth & 255];
}

__attribute__((noinline)) int aligned_and_alloca(int bytes, int depth) {
    alignas(64) volatile char room[64];
    auto *more = static_cast<volatile char *>(alloca(static_cast<size_t>(bytes)));
    more[0] = room[depth & 63] = 1;
    look();
    int below = depth ? aligned(bytes + 24, depth - 1) : 0;
    return below + more[0] + room[depth & 63];
}

__attribute__((noinline)) int many_arguments(int a, int b, int c, int d, int e, int f, int g, int h, int depth) {
    look(); // the caller has pushed arguments
    int below = depth ? aligned_and_alloca(a + h, depth - 1) : 0;
    return below + a + b + c + d + e + f + g + h;
}

__attribute__((noinline)) int with_alloca(int bytes, int depth) {
    auto *room = static_cast<volatile char *>(alloca(static_cast<size_t>(bytes)));
    room[0] = 1;
    look();
    int below = depth ? many_arguments(bytes, 1, 2, 3, 4, 5, 6, 7, depth - 1) : 0;
    look();
    return below + room[0];
}

void frames() {
    for (int i = 0; i < 300; i++) {
        with_alloca(16 + i * 8, 2 + i % 37);
        aligned(16 + i, i % 19);
    }
}

// ---- jumps out of frames

jmp_buf back;

__attribute__((noinline)) void jump_from(int depth) {
    volatile char room[64];
    room[depth & 63] = 1;
    look();
    if (depth == 0)
        longjmp(back, 1);
    if (depth > 0)
        jump_from(depth - 1);
    sink = room[0];
}

void jumps() {
    for (volatile int i = 0; i < 300; i++) {
        look();
        if (setjmp(back) == 0)
            jump_from(1 + i % 30);
        look();
    }
}

// ---- depth

__attribute__((noinline)) int deep(int depth, int every) {
    if (depth % every == 0)
        look();
    int below = depth ? deep(depth - 1, every) : 0;
    if (depth % every == 1)
        look();
    return below + 1;
}

void depths() {
    for (int round = 0; round < 3; round++)
        for (int depth : {100, 505, 512, 520, 570, 580, 2000, 600, 40})
            deep(depth, 37);
}

// ---- threads

pthread_key_t key;

struct AtEnd {
    std::vector<int> numbers = std::vector<int>(100);
    ~AtEnd() { look(); }
};

void at_end(void *value) {
    look();
    free(value);
    if (pthread_getspecific(key) == nullptr && sink % 2)
        pthread_setspecific(key, malloc(10)); // once more
}

void *thread(void *argument) {
    static thread_local AtEnd at_end_of_thread;
    sink = sink + at_end_of_thread.numbers[0];
    auto number = static_cast<int>(reinterpret_cast<intptr_t>(argument));
    pthread_setspecific(key, malloc(10));
    Looks looks(number);
    deep(20 + number, 3);
    with_alloca(64, number % 12);
    try {
        Thrower().down(number % 20);
    } catch (const std::exception &) {
    }
    if (number % 4 == 1)
        pthread_exit(nullptr); // destructors run, as for an exception
    if (number % 4 == 2) {
        pthread_cancel(pthread_self());
        pthread_testcancel();
    }
    return nullptr;
}

void threads() {
    pthread_key_create(&key, at_end);
    pthread_t all[64];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 64; i++) {
            pthread_attr_t attributes;
            pthread_attr_init(&attributes);
            pthread_attr_setstacksize(&attributes, static_cast<size_t>(256 + 64 * (i % 9)) << 10);
            if (pthread_create(&all[i], &attributes, thread, reinterpret_cast<void *>(static_cast<intptr_t>(i))))
                abort();
            pthread_attr_destroy(&attributes);
            if (i % 8 == 7) // so that some live at once, and later ones get the stacks of earlier ones
                for (int k = i - 7; k <= i; k++)
                    pthread_join(all[k], nullptr);
        }
    }
}

// ---- signal handlers

volatile sig_atomic_t signals;

void on_signal(int) {
    look();
    deep(7, 4);
    signals = signals + 1;
}

__attribute__((noinline)) void raise_at(int depth, int number) {
    volatile char room[80];
    room[depth % 80] = 1;
    if (depth == 0)
        raise(number);
    else
        raise_at(depth - 1, number);
    look();
    sink = room[0];
}

void handle(int number, int flags) {
    struct sigaction action = {};
    action.sa_handler = on_signal;
    action.sa_flags = flags;
    sigaction(number, &action, nullptr);
}

void *signals_on_another_stack(void *high) {
    const size_t bytes = 256 << 10;
    void *room = mmap(high, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    stack_t stack = {};
    stack.ss_sp = room;
    stack.ss_size = bytes;
    sigaltstack(&stack, nullptr);
    for (int i = 0; i < 100; i++) {
        look();
        raise_at(i % 23, SIGUSR1);
        raise_at(i % 23, SIGUSR2);
    }
    stack.ss_flags = SS_DISABLE;
    sigaltstack(&stack, nullptr);
    munmap(room, bytes);
    return nullptr;
}

void *own_stack(void *) {
    char here;
    // Somewhere above this thread's stack.
    signals_on_another_stack(reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(&here) + (64 << 20)) & ~4095ul));
    return nullptr;
}

void signal_handlers() {
    handle(SIGUSR1, 0);
    handle(SIGUSR2, SA_ONSTACK);
    signals_on_another_stack(nullptr);
    pthread_t other;
    pthread_create(&other, nullptr, own_stack, nullptr);
    pthread_join(other, nullptr);
    // At any instruction: prologues, epilogues, the C library's assembly.
    handle(SIGPROF, SA_RESTART);
    struct itimerval every = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_PROF, &every, nullptr);
    int before = signals;
    for (int i = 0; i < 100000 && signals < before + 60; i++) {
        char text[256];
        snprintf(text, sizeof text, "%d %f", i, i * 0.5);
        sink = sink + static_cast<int>(strlen(text)) + (i % 100 ? 0 : deep(30, 9));
    }
    every = {};
    setitimer(ITIMER_PROF, &every, nullptr);
}

// ---- fibers

ucontext_t main_context, fiber_context[4];
int fibers_left;

void fiber(int number) {
    for (int i = 0; i < 30; i++) {
        deep(5 + number + i % 9, 3);
        swapcontext(&fiber_context[number], &main_context);
        look();
    }
    fibers_left--;
}

void run_fibers(char *(*room)(int)) {
    fibers_left = 4;
    for (int i = 0; i < 4; i++) {
        getcontext(&fiber_context[i]);
        fiber_context[i].uc_stack.ss_sp = room(i);
        fiber_context[i].uc_stack.ss_size = 64 << 10;
        fiber_context[i].uc_link = &main_context;
        makecontext(&fiber_context[i], reinterpret_cast<void (*)()>(fiber), 1, i);
    }
    for (int turn = 0; fibers_left > 0; turn++) {
        look();
        swapcontext(&main_context, &fiber_context[turn % 4]);
        deep(turn % 17, 4);
        if (turn == 4 * 31)
            break;
    }
}

char *inside;

void fibers() {
    run_fibers([](int) { return static_cast<char *>(malloc(64 << 10)); });
    // Their stacks in a frame of this thread's own: its bounds hold them.
    char room[4 * (64 << 10)];
    inside = room;
    run_fibers([](int number) { return inside + number * (64 << 10); });
    sink = room[0];
}

// ---- frames that the stack pointer and the frame pointer cannot express

void by_another_register(int depth) {
    look();
    deep(depth, 3);
    if (depth % 4)
        call_by_rbx(by_another_register, depth - 1);
    look();
}

void registers() {
    for (int i = 0; i < 60; i++) {
        call_by_rbx(by_another_register, 1 + i % 9);
        look();
    }
}

// ---- one thread's frames on two stacks, there and back

char *elsewhere, *home;

void at_home(int depth) {
    deep(depth, 3);
}

void away(int depth) {
    look();
    call_on(at_home, depth, home); // older frames lie where this thread's stack does not
    look();
}

void two_stacks() {
    char room[64 << 10];
    home = room + sizeof room - 64;
    home -= reinterpret_cast<uintptr_t>(home) % 16;
    elsewhere = static_cast<char *>(malloc(64 << 10)) + (64 << 10);
    elsewhere -= reinterpret_cast<uintptr_t>(elsewhere) % 16;
    for (int i = 0; i < 100; i++) {
        call_on(away, i % 13, elsewhere - 16 * (i % 3));
        look();
    }
    sink = room[0];
}

// ---- code that is in no module

int call_through(int n) {
    look();
    deep(n % 11, 3);
    return n;
}

void made_code() {
    // push rbp; mov rbp, rsp; call rsi; pop rbp; ret: called with (argument, function)
    const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd6, 0x5d, 0xc3};
    for (int i = 0; i < 200; i++) {
        void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(static_cast<char *>(page) + i % 3 * 64, code, sizeof code);
        auto *made = reinterpret_cast<int (*)(int, int (*)(int))>(static_cast<char *>(page) + i % 3 * 64);
        sink = sink + made(i, call_through);
        look();
        munmap(page, 4096);
    }
}

// ---- libraries that come and go

void libraries(int count, char **paths) {
    uintptr_t first = 0;
    int same = 0;
    for (int i = 0; i < 200; i++) {
        void *handle = dlopen(paths[i % count], RTLD_NOW | RTLD_LOCAL);
        if (!handle) {
            fprintf(stderr, "%s\n", dlerror());
            exit(1);
        }
        auto *call_back = reinterpret_cast<int (*)(int (*)(int), int)>(dlsym(handle, "call_back"));
        auto at = reinterpret_cast<uintptr_t>(call_back);
        first = first ? first : at;
        same += at == first;
        for (int k = 0; k < 4; k++)
            sink = sink + call_back(call_through, k);
        dlclose(handle);
    }
    printf("same address %d of 200\n", same);
}

void last() { look(); }

struct Case {
    const char *name;
    void (*run)();
};

const Case cases[] = {
    {"exceptions", exceptions}, {"frames", frames},   {"jumps", jumps},         {"depths", depths}, {"threads", threads},
    {"signals", signal_handlers}, {"fibers", fibers}, {"registers", registers}, {"two-stacks", two_stacks}, {"made-code", made_code},
};

} // namespace

int main(int count, char **arguments) {
    atexit(last);
    std::string wanted = count > 1 ? arguments[1] : "all";
    if (wanted == "libraries") {
        libraries(count - 2, arguments + 2);
        return 0;
    }
    int ran = 0;
    for (const Case &one : cases) {
        if (wanted != "all" && wanted != one.name)
            continue;
        one.run();
        ran++;
    }
    return ran ? 0 : 2;
}
