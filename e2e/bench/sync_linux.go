package main

import (
	"os"
	"syscall"
)

const syncName = "fdatasync"

func syncData(file *os.File) error { return syscall.Fdatasync(int(file.Fd())) }
