/* The machine: a serial port, a switch, and memory. */
#ifndef MACHINE_H
#define MACHINE_H

#include <stddef.h>

extern int errno_of_thread;
/* How many bytes are allocated now. */
extern size_t allocated;
/* True while there is no memory. */
extern int is_exhausted;

void print(const char *text, size_t length);
void power_off(int status) __attribute__((noreturn));

#endif
