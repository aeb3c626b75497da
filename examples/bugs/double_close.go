// Two owners of one descriptor: each closes it.
package main

import (
	"os"
	"syscall"
)

func endRequest(fd int) {
	syscall.Close(fd)
}

func endConnection(fd int) {
	syscall.Close(fd)
}

func main() {
	fd, _ := syscall.Open("/dev/null", syscall.O_RDONLY, 0)
	endRequest(fd)
	other, _ := os.Open("/dev/zero")
	endConnection(fd)
	// Without the check, this one is closed now.
	other.Close()
}
