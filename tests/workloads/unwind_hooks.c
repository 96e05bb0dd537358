/* unwind_hooks step FILE: calls each naked function of libgpumem.so (lines of FILE: name, offset, size, in hex) one
 * instruction at a time, and unwinds from each of them with the system's unwinder. Each line of output: name, and the
 * offsets of the instructions from which the caller was found. A jump out of a function counts as its return, and its
 * target is not run; calls are run. At a branch both ways are taken.
 * unwind_hooks sample COUNT: looks names up with dlsym while a timer's handler calls `backtrace()`, until COUNT of the
 * stacks have a frame of our dlsym; prints how many were taken, how many had one, and how many did not end in main.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <inttypes.h>
#include <link.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#define TRAP_FLAG 0x100
#define ZERO_FLAG 0x40
#define MOST_SIZE 512
#define MOST_WAYS 64

static const int SAVED[] = {REG_RBX, REG_RBP, REG_R12, REG_R13, REG_R14, REG_R15};
static const int DWARF[] = {3, 6, 12, 13, 14, 15};
#define SAVED_COUNT (sizeof SAVED / sizeof *SAVED)

/* The function that is stepped through. */
static struct {
	uintptr_t start, size;
	int entered, done, in_callee;
	uintptr_t returns_to, entry_sp;
	greg_t saved[SAVED_COUNT];
	/* For each instruction: 1 if it was reached. */
	unsigned char seen[MOST_SIZE];
	/* The direction at the branches of this run: bit n is the nth one's. */
	unsigned way, branches;
} now;

static char failure[512];

__attribute__((format(printf, 1, 2))) static void fail(const char *format, ...)
{
	if (failure[0] == 0) {
		va_list rest;
		va_start(rest, format);
		vsnprintf(failure, sizeof failure, format, rest);
		va_end(rest);
	}
}

struct found {
	uintptr_t pc;
	int in_function, caller, in_main;
};

int main(int, char **);

static _Unwind_Reason_Code frame(struct _Unwind_Context *context, void *data)
{
	struct found *found = data;
	int before = 0;
	uintptr_t ip = _Unwind_GetIPInfo(context, &before);
	if (!found->in_function) {
		uintptr_t at = before ? ip : ip - 1;
		found->in_function = at - now.start < now.size && (now.in_callee || (before && ip == found->pc));
		return _URC_NO_REASON;
	}
	if (!found->caller) {
		if (ip != now.returns_to || _Unwind_GetCFA(context) != now.entry_sp + 8) {
			/* libgcc gives the stack pointer with which a frame continues as its CFA. */
			fail("offset %#" PRIxPTR ": caller %#" PRIxPTR " with sp %#" PRIxPTR ", not %#" PRIxPTR " with %#" PRIxPTR,
			     found->pc - now.start, ip, (uintptr_t)_Unwind_GetCFA(context), now.returns_to, now.entry_sp + 8);
			return _URC_END_OF_STACK;
		}
		for (size_t i = 0; i < SAVED_COUNT; i++)
			if ((greg_t)_Unwind_GetGR(context, DWARF[i]) != now.saved[i])
				fail("offset %#" PRIxPTR ": register %d of the caller", found->pc - now.start, DWARF[i]);
		found->caller = 1;
	}
	if (_Unwind_FindEnclosingFunction((void *)(ip - 1)) == (void *)main)
		found->in_main = 1;
	return _URC_NO_REASON;
}

static void unwind(uintptr_t pc)
{
	struct found found = {.pc = pc};
	_Unwind_Backtrace(frame, &found);
	if (!found.in_function || !found.caller || !found.in_main)
		fail("offset %#" PRIxPTR "%s: %s", pc - now.start, now.in_callee ? " (in what it calls)" : "",
		     !found.in_function ? "the function is not in its own stack"
		     : !found.caller ? "its caller is not in its stack" : "main is not in its stack");
}

/* Takes this run's way at a conditional jump. */
static void choose(greg_t *registers)
{
	const unsigned char *code = (const unsigned char *)registers[REG_RIP];
	int near = code[0] == 0x0f && (code[1] & 0xfe) == 0x84;
	if ((code[0] & 0xfe) == 0x74 || near) {
		if (now.way >> now.branches++ & 1)
			registers[REG_EFL] ^= ZERO_FLAG;
	} else if ((code[0] & 0xf0) == 0x70 || (code[0] == 0x0f && (code[1] & 0xf0) == 0x80)) {
		fail("offset %#" PRIxPTR ": a conditional jump of a kind that this test does not know",
		     (uintptr_t)code - now.start);
	}
}

static void stepped(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	uintptr_t pc = registers[REG_RIP], sp = registers[REG_RSP];
	if (!now.entered) {
		registers[REG_EFL] |= TRAP_FLAG;
		if (pc != now.start)
			return; /* on the way to it */
		now.entered = 1;
		now.entry_sp = sp;
		now.returns_to = *(uintptr_t *)sp;
		for (size_t i = 0; i < SAVED_COUNT; i++)
			now.saved[i] = registers[SAVED[i]];
	}
	if (pc == now.returns_to && sp == now.entry_sp + 8) {
		registers[REG_EFL] &= ~TRAP_FLAG;
		now.done = 1;
		return;
	}
	if (pc - now.start < now.size) {
		now.in_callee = 0;
		now.seen[pc - now.start] = 1;
		unwind(pc);
		choose(registers);
		return;
	}
	if (now.in_callee)
		return;
	if (sp < now.entry_sp) { /* it has called */
		now.in_callee = 1;
		unwind(*(uintptr_t *)sp);
		return;
	}
	if (sp != now.entry_sp || *(uintptr_t *)sp != now.returns_to)
		fail("the function jumps away with a stack that is not its caller's");
	registers[REG_RIP] = now.returns_to;
	registers[REG_RSP] = now.entry_sp + 8;
	registers[REG_EFL] &= ~TRAP_FLAG;
	now.done = 1;
}

__attribute__((noinline)) static void call(uintptr_t function)
{
	void *(*volatile real)(void *, const char *, const char *, void *, void *, void *) =
		(void *(*)(void *, const char *, const char *, void *, void *, void *))function;
	__asm__ volatile("int3"); /* the handler begins to step */
	/* dlsym(NULL, "malloc"), dlvsym(NULL, "malloc", …) and dlopen(NULL, …) among them. */
	real(NULL, "malloc", "GLIBC_2.2.5", NULL, NULL, NULL);
	if (!now.done)
		fail("the function returned without having been seen to");
}

static int base_of_library(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	const char *name = strrchr(info->dlpi_name, '/');
	if (name == NULL || strcmp(name, "/libgpumem.so") != 0)
		return 0;
	*(uintptr_t *)data = info->dlpi_addr;
	return 1;
}

static int step(const char *path)
{
	uintptr_t base = 0, offset, size;
	char name[256];
	FILE *file = fopen(path, "r");
	if (file == NULL || !dl_iterate_phdr(base_of_library, &base))
		return 2;
	struct sigaction action = {.sa_sigaction = stepped, .sa_flags = SA_SIGINFO};
	sigaction(SIGTRAP, &action, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	int failed = 0;
	while (fscanf(file, "%255s %" SCNxPTR " %" SCNxPTR, name, &offset, &size) == 3) {
		unsigned char seen[MOST_SIZE] = {0};
		failure[0] = 0;
		if (size > MOST_SIZE)
			fail("%" PRIuPTR " bytes are more than this test has room for", size);
		for (unsigned way = 0, ways = 1; way < ways && failure[0] == 0; way++) {
			memset(&now, 0, sizeof now);
			now.start = base + offset;
			now.size = size;
			now.way = way;
			call(now.start);
			if (1u << now.branches > ways)
				ways = 1u << now.branches;
			if (ways > MOST_WAYS)
				fail("%u branches are more than this test follows", now.branches);
			for (size_t i = 0; i < size; i++)
				seen[i] |= now.seen[i];
		}
		printf("%s", name);
		for (size_t i = 0; i < size && i < MOST_SIZE; i++)
			if (seen[i])
				printf(" %zx", i);
		printf("%s%s\n", failure[0] ? " failed: " : "", failure);
		failed |= failure[0] != 0;
	}
	fclose(file);
	return failed;
}

static uintptr_t dlsym_start, dlsym_end;
static volatile long taken, through_dlsym, without_main;

static void sampled(int number)
{
	(void)number;
	void *stack[128];
	int count = backtrace(stack, 128), hooked = 0, whole = 0;
	for (int i = 0; i < count; i++) {
		uintptr_t ip = (uintptr_t)stack[i];
		hooked |= ip >= dlsym_start && ip < dlsym_end;
		whole |= _Unwind_FindEnclosingFunction((char *)stack[i] - 1) == (void *)main;
	}
	taken++;
	through_dlsym += hooked;
	without_main += !whole;
}

static int sample(long wanted)
{
	void *function = dlsym(RTLD_DEFAULT, "dlsym");
	Dl_info info;
	ElfW(Sym) *symbol;
	if (!dladdr1(function, &info, (void **)&symbol, RTLD_DL_SYMENT) || strstr(info.dli_fname, "gpumem") == NULL)
		return 2;
	dlsym_start = (uintptr_t)function;
	dlsym_end = dlsym_start + symbol->st_size;
	sampled(0); /* loads what `backtrace` needs */
	taken = through_dlsym = without_main = 0;
	struct sigaction action = {.sa_handler = sampled, .sa_flags = SA_RESTART};
	sigaction(SIGPROF, &action, NULL);
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF};
	struct itimerspec often = {{0, 100000}, {0, 100000}};
	timer_t timer;
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &often, NULL))
		return 2;
	while (through_dlsym < wanted)
		dlsym(RTLD_DEFAULT, "malloc");
	timer_delete(timer);
	printf("%ld %ld %ld\n", taken, through_dlsym, without_main);
	return 0;
}

int main(int count, char **values)
{
	if (count == 3 && strcmp(values[1], "step") == 0)
		return step(values[2]);
	if (count == 3 && strcmp(values[1], "sample") == 0)
		return sample(atol(values[2]));
	return 2;
}
