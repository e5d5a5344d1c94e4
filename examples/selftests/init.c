// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * PID 1 of the guest: does what the lines of /todo say.
 *
 *   write PATH VALUE          as echo VALUE > PATH
 *   test SECONDS NAME ARG...  runs /tests/NAME, for no longer than SECONDS
 *   stack-tests               two of LKDTM's; the last one takes the kernel down
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CRASH "/sys/kernel/debug/provoke-crash/DIRECT"
#define STACKS 256
#define WORDS 32

static void put(const char *path, const char *what)
{
	int file = open(path, O_WRONLY);

	if (file < 0 || write(file, what, strlen(what)) < 0)
		printf("@error %s: %s: errno %d\n", path, what, errno);
	close(file);
}

/* A test's status as wait() gives it, or -1 if it was too slow. */
static int run(int seconds, char **argv, const sigset_t *child)
{
	struct timespec limit = { seconds, 0 };
	char path[256];
	int status = -1, one, found = 0;
	pid_t pid = fork(), done;

	if (!pid) {
		sigprocmask(SIG_UNBLOCK, child, NULL);
		setpgid(0, 0);
		snprintf(path, sizeof(path), "/tests/%s", argv[0]);
		argv[0] = path;
		execv(path, argv);
		_exit(127);
	}
	while (!found && sigtimedwait(child, NULL, &limit) > 0)
		while ((done = waitpid(-1, &one, WNOHANG)) > 0)
			if (done == pid) {
				status = one;
				found = 1;
			}
	if (!found) {
		kill(-pid, SIGKILL);
		return -1;
	}
	return status;
}

static void stack_tests(void)
{
	printf("\n@begin stack-entropy\n");
	for (int i = 0; i < STACKS; i++)
		put(CRASH, "REPORT_STACK");
	printf("\n@end stack-entropy 0\n");

	printf("\n@begin stack-overflow\n");
	put(CRASH, "EXHAUST_STACK");
	printf("\n@end stack-overflow 1\n");
}

int main(void)
{
	sigset_t child;
	char line[1024];
	FILE *todo = fopen("/todo", "r");

	setvbuf(stdout, NULL, _IONBF, 0);
	mount("dev", "/dev", "devtmpfs", 0, "");
	mount("proc", "/proc", "proc", 0, "");
	mount("sysfs", "/sys", "sysfs", 0, "");
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, "");
	mount("tmpfs", "/tmp", "tmpfs", 0, "");
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	if (!todo || chdir("/tests"))
		return 1;
	/* A test's standard input is none of the list's business. */
	fcntl(fileno(todo), F_SETFD, FD_CLOEXEC);
	while (fgets(line, sizeof(line), todo)) {
		char *words[WORDS + 1] = { NULL }, *next = line;
		int count = 0;

		while (count < WORDS && (words[count] = strtok(next, " \n"))) {
			next = NULL;
			count++;
		}
		if (count >= 3 && !strcmp(words[0], "test")) {
			char *name = words[2];

			printf("\n@begin %s\n", name);
			printf("\n@end %s %d\n", name, run(atoi(words[1]), words + 2, &child));
		} else if (count == 3 && !strcmp(words[0], "write")) {
			put(words[1], words[2]);
		} else if (count == 1 && !strcmp(words[0], "stack-tests")) {
			stack_tests();
		}
	}
	reboot(RB_POWER_OFF);
	return 1;
}
