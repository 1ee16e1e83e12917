//go:build linux || darwin

package dynamostore

import (
	"net"
	"syscall"
)

// ended reports whether a connection that waits for a request has something to read: bytes, an end or an error, each
// of which means that it is of no more use. It takes nothing away and does not wait.
func ended(c net.Conn) bool {
	source, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := source.SyscallConn()
	if err != nil {
		return false
	}
	var peekErr error
	// Not raw.Read, which would wait for the reader that the transport keeps on the connection.
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, peekErr = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return err != nil || peekErr != syscall.EAGAIN && peekErr != syscall.EWOULDBLOCK && peekErr != syscall.EINTR
}
