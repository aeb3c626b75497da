"""A descriptor that a file object owns is closed below it."""

import os

file = open("/dev/null")
os.close(file.fileno())
try:
    file.close()
except OSError:
    pass
