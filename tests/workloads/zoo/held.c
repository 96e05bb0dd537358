/* Holds a thread in the middle of a call of the driver, right after the recorder has asked whether the interpreter is
 * finalizing, until the interpreter is gone. The thread runs the call one instruction at a time to see it ask. */
#define _GNU_SOURCE
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <ucontext.h>

#define TRAP_FLAG 0x100

static uintptr_t question;
static volatile long hold_at, asked;
static uintptr_t asked_from;
static volatile int stepping, let_go;
static sem_t held, go_on, finished;

static void stepped(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	uintptr_t pc = registers[REG_RIP];
	if (!stepping) { /* at its end, and once at its beginning */
		registers[REG_EFL] &= ~TRAP_FLAG;
		return;
	}
	registers[REG_EFL] |= TRAP_FLAG;
	if (pc == question) {
		asked_from = *(uintptr_t *)registers[REG_RSP];
	} else if (asked_from != 0 && pc == asked_from) {
		asked_from = 0;
		if (++asked == hold_at) {
			sem_post(&held);
			while (sem_wait(&go_on) != 0)
				;
			stepping = 0;
			registers[REG_EFL] &= ~TRAP_FLAG;
		}
	}
}

/* To be called first. `function` is the interpreter's that tells whether it is finalizing. */
void prepare(void *function)
{
	struct sigaction action = {.sa_sigaction = stepped, .sa_flags = SA_SIGINFO};
	sigaction(SIGTRAP, &action, NULL);
	question = (uintptr_t)function;
	sem_init(&held, 0, 0);
	sem_init(&go_on, 0, 0);
	sem_init(&finished, 0, 0);
}

/* Allocates, and holds the thread after the `at`th answer; 0: nowhere. How many there were. */
long allocate(int (*function)(uint64_t *, size_t), long at)
{
	uint64_t pointer;
	hold_at = at;
	asked = 0;
	stepping = 1;
	__asm__ volatile("int3");
	function(&pointer, 4096);
	stepping = 0;
	__asm__ volatile("int3");
	if (let_go)
		sem_post(&finished);
	return asked;
}

void wait_until_held(void)
{
	sem_wait(&held);
}

/* For Py_AtExit: the interpreter is gone. The held thread goes on, and ends its call. */
void interpreter_is_gone(void)
{
	let_go = 1;
	sem_post(&go_on);
	sem_wait(&finished);
	printf("the held call has returned\n");
	fflush(stdout);
}
