"""Times one kind of call, and prints the nanoseconds of one: calls.py WHAT COUNT FOLDER."""

import os
import sys
import time

what, count, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
path = f"{folder}/calls.{os.getpid()}"
fd = os.open(path, os.O_RDWR | os.O_CREAT)
reader, writer = os.pipe()


def pwrite():
    os.pwrite(fd, b"x", 0)


def pipe():
    os.write(writer, b"x")
    os.read(reader, 1)


def compute():
    total = 0
    for number in range(100):
        total += number * number % 7
    return total


call = {"pwrite": pwrite, "pipe": pipe, "compute": compute}[what]
for _ in range(100):
    call()
begin = time.perf_counter_ns()
for _ in range(count):
    call()
print((time.perf_counter_ns() - begin) / count)
os.unlink(path)
