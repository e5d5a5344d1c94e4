// SPDX-License-Identifier: GPL-2.0-or-later
/* PID 1 of the guest: runs each test named on the command line, then two of LKDTM's tests. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CRASH "/sys/kernel/debug/provoke-crash/DIRECT"
#define STACKS 256
#define TEST_SECONDS 120

static void provoke(const char *what, size_t length)
{
	int file = open(CRASH, O_WRONLY);

	if (file < 0 || write(file, what, length) < 0)
		printf("@error %.*s: errno %d\n", (int)length, what, errno);
	close(file);
}

/* A test's status as wait() gives it, or -1 if it was too slow. */
static int run(const char *name, const sigset_t *child)
{
	struct timespec limit = { TEST_SECONDS, 0 };
	char path[256];
	int status = -1, found = 0;
	pid_t pid = fork(), done;

	if (!pid) {
		sigprocmask(SIG_UNBLOCK, child, NULL);
		setpgid(0, 0);
		snprintf(path, sizeof(path), "/tests/%s", name);
		execl(path, path, (char *)NULL);
		_exit(127);
	}
	while (!found && sigtimedwait(child, NULL, &limit) > 0)
		while ((done = waitpid(-1, &status, WNOHANG)) > 0 && !found)
			found = done == pid;
	if (!found) {
		kill(-pid, SIGKILL);
		return -1;
	}
	return status;
}

int main(int argc, char **argv)
{
	sigset_t child;

	setvbuf(stdout, NULL, _IONBF, 0);
	mount("dev", "/dev", "devtmpfs", 0, "");
	mount("proc", "/proc", "proc", 0, "");
	mount("sysfs", "/sys", "sysfs", 0, "");
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, "");
	mount("tmpfs", "/tmp", "tmpfs", 0, "");
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	if (chdir("/tests"))
		return 1;
	for (int i = 1; i < argc; i++) {
		printf("\n@begin %s\n", argv[i]);
		printf("\n@end %s %d\n", argv[i], run(argv[i], &child));
	}

	printf("\n@begin stack-entropy\n");
	for (int i = 0; i < STACKS; i++)
		provoke("REPORT_STACK", sizeof("REPORT_STACK") - 1);
	printf("\n@end stack-entropy 0\n");

	/* The last one: it takes the kernel down. */
	printf("\n@begin stack-overflow\n");
	provoke("EXHAUST_STACK", sizeof("EXHAUST_STACK") - 1);
	printf("\n@end stack-overflow 1\n");
	reboot(RB_POWER_OFF);
	return 1;
}
