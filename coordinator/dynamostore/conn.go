package dynamostore

import (
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// errStale ends a connection before the first byte of a request is written to it.
var errStale = errors.New("the idle connection is closed")

// lookAfter is how long a connection rests before its next use is preceded by a look at it. A fresh one is not looked
// at, since a server that has just finished a handshake may still be sending.
const lookAfter = time.Second

// conn counts what is written to it. After a rest it looks for an end that the other side has sent meanwhile: a process
// that was frozen finds all its connections closed, and would otherwise write requests to them whose fate is unknown.
type conn struct {
	net.Conn
	written atomic.Int64
	used    atomic.Int64 // wall clock, since a monotonic one may stand still while a process is frozen
}

func newConn(c net.Conn) *conn {
	n := &conn{Conn: c}
	n.used.Store(time.Now().UnixNano())
	return n
}

// Write writes nothing to a connection that is closed or has unread bytes after a rest.
func (c *conn) Write(b []byte) (int, error) {
	now := time.Now().UnixNano()
	if now-c.used.Load() > int64(lookAfter) && ended(c.Conn) {
		return 0, errStale
	}
	n, err := c.Conn.Write(b)
	c.written.Add(int64(n))
	c.used.Store(time.Now().UnixNano())
	return n, err
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		// Not for an end: a request may be given the connection before the transport has taken note of it.
		c.used.Store(time.Now().UnixNano())
	}
	return n, err
}
