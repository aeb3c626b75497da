// A program of Go, for `binaries`: goroutines that share files, pipes and sockets, a process, and a
// signal. It prints what it finds, the same each time.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
)

func check(what string, err error) {
	if err != nil {
		fmt.Println(what, err)
		os.Exit(1)
	}
}

// Each goroutine writes a file, reads it, and renames it; another one lists them.
func files(directory string) {
	var all sync.WaitGroup
	for i := 0; i < 50; i++ {
		i := i
		all.Add(1)
		go func() {
			defer all.Done()
			path := filepath.Join(directory, fmt.Sprint("file", i))
			for n := 0; n < 20; n++ {
				check("write", os.WriteFile(path, []byte(path), 0o600))
				text, err := os.ReadFile(path)
				check("read", err)
				if string(text) != path {
					check("contents", fmt.Errorf("of %s: %s", path, text))
				}
				check("rename", os.Rename(path, path+"x"))
				check("rename", os.Rename(path+"x", path))
			}
		}()
	}
	all.Wait()
	entries, err := os.ReadDir(directory)
	check("list", err)
	_, err = os.Stat(filepath.Join(directory, "none"))
	fmt.Println("files", len(entries), os.IsNotExist(err))
	check("remove", os.RemoveAll(directory))
}

// Bytes go around through pipes.
func pipes() {
	first, write, err := os.Pipe()
	check("pipe", err)
	read := first
	for n := 0; n < 20; n++ {
		next, to, err := os.Pipe()
		check("pipe", err)
		go func(from *os.File) {
			_, err := io.Copy(to, from)
			check("copy", err)
			to.Close()
			from.Close()
		}(read)
		read = next
	}
	go func() {
		for n := 0; n < 1000; n++ {
			write.WriteString("some bytes\n")
		}
		write.Close()
	}()
	text, err := io.ReadAll(read)
	check("read", err)
	fmt.Println("pipes", len(text))
}

// A server answers clients, each in a goroutine.
func talk(network, address string) {
	listener, err := net.Listen(network, address)
	check("listen", err)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(connection, connection)
				connection.Close()
			}()
		}
	}()
	var all sync.WaitGroup
	var lock sync.Mutex
	total := 0
	for i := 0; i < 30; i++ {
		i := i
		all.Add(1)
		go func() {
			defer all.Done()
			connection, err := net.Dial(network, listener.Addr().String())
			check("dial", err)
			defer connection.Close()
			text := fmt.Sprintf("client %03d", i)
			for n := 0; n < 20; n++ {
				_, err = io.WriteString(connection, text)
				check("send", err)
				answer := make([]byte, len(text))
				_, err = io.ReadFull(connection, answer)
				check("receive", err)
				if string(answer) != text {
					check("answer", fmt.Errorf("to %s: %s", text, answer))
				}
				lock.Lock()
				total += len(answer)
				lock.Unlock()
			}
		}()
	}
	all.Wait()
	listener.Close()
	fmt.Println(network, total)
}

func processes() {
	fmt.Println("true", exec.Command("true").Run())
	fmt.Println("false", exec.Command("false").Run())
	fmt.Println("missing", exec.Command("/nonexistent/program").Run() != nil)
}

func signals() {
	arrived := make(chan os.Signal, 1)
	signal.Notify(arrived, syscall.SIGUSR1)
	for n := 0; n < 100; n++ {
		check("kill", syscall.Kill(syscall.Getpid(), syscall.SIGUSR1))
		if found := <-arrived; found != syscall.SIGUSR1 {
			check("signal", fmt.Errorf("%v", found))
		}
	}
	fmt.Println("signals")
}

func main() {
	directory, err := os.MkdirTemp(os.Args[1], "go")
	check("directory", err)
	socket := filepath.Join(directory, "socket")
	talk("unix", socket)
	talk("tcp", "127.0.0.1:0")
	files(directory)
	pipes()
	processes()
	signals()
	fmt.Println("done")
}
