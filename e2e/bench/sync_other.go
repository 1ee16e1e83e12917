//go:build !linux

package main

import "os"

const syncName = "fsync"

func syncData(file *os.File) error { return file.Sync() }
