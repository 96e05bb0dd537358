/* Holds a thread in the middle of a call of the driver, right after the recorder has read whether the interpreter is
 * finalizing, until the interpreter is gone. The thread runs the call in single steps to detect that read. */
#define _GNU_SOURCE
#include <semaphore.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>

#define TRAP_FLAG 0x100

static uintptr_t word;
static volatile long hold_at, answers;
static int reads_word;
static volatile int stepping, let_go;
static sem_t held, go_on, finished;

/* Whether the instruction reads the word, by an address of one register and a displacement: mov, cmp and test. */
static int is_read(const uint8_t *code, const greg_t *registers)
{
	static const int names[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
		REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
	int rex = (*code & 0xf0) == 0x40 ? *code++ : 0;
	if (*code != 0x8b && *code != 0x39 && *code != 0x3b && *code != 0x83 && *code != 0x85)
		return 0;
	int mode = code[1] >> 6, base = code[1] & 7;
	if (mode == 3 || base == 4 || (mode == 0 && base == 5)) /* a register, an index, relative to the next one */
		return 0;
	int32_t displacement = mode == 1 ? (int8_t)code[2] : 0;
	if (mode == 2)
		memcpy(&displacement, code + 2, sizeof displacement);
	return (uintptr_t)registers[names[base | (rex & 1) << 3]] + displacement == word;
}

static void stepped(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	if (!stepping) { /* at its end, and once at its beginning */
		registers[REG_EFL] &= ~TRAP_FLAG;
		return;
	}
	registers[REG_EFL] |= TRAP_FLAG;
	if (reads_word && ++answers == hold_at) {
		sem_post(&held);
		while (sem_wait(&go_on) != 0)
			;
		stepping = 0;
		registers[REG_EFL] &= ~TRAP_FLAG;
	}
	reads_word = is_read((const uint8_t *)registers[REG_RIP], registers);
}

/* Called first. `address` is that of the interpreter's word that shows whether it is finalizing. */
void prepare(uintptr_t address)
{
	struct sigaction action = {.sa_sigaction = stepped, .sa_flags = SA_SIGINFO};
	sigaction(SIGTRAP, &action, NULL);
	word = address;
	sem_init(&held, 0, 0);
	sem_init(&go_on, 0, 0);
	sem_init(&finished, 0, 0);
}

/* Allocates, and holds the thread after the `at`th answer; 0: nowhere. How many there were. */
long allocate(int (*function)(uint64_t *, size_t), long at)
{
	uint64_t pointer;
	hold_at = at;
	answers = 0;
	stepping = 1;
	__asm__ volatile("int3");
	function(&pointer, 4096);
	stepping = 0;
	__asm__ volatile("int3");
	if (let_go)
		sem_post(&finished);
	return answers;
}

void wait_until_held(void)
{
	sem_wait(&held);
}

/* For Py_AtExit: the interpreter is gone. The held thread continues, and ends its call. */
void interpreter_is_gone(void)
{
	let_go = 1;
	sem_post(&go_on);
	sem_wait(&finished);
	printf("the held call has returned\n");
	fflush(stdout);
}
