// SPDX-License-Identifier: GPL-2.0-or-later
int first(void)
{
	return 1;
}

int second(void)
{
	return 2;
}

int third(void)
{
	return 3;
}
