package s3store

import (
	"context"
	"sync"
)

// locks hold up this process's own writers of one register: among themselves they would only lose races. A lock exists while
// somebody has it or waits for it. The zero value is ready.
type locks struct {
	mu  sync.Mutex
	all map[string]*lock
}

type lock struct {
	held  chan struct{} // full while somebody has it
	users int
}

// lock takes the lock of a key, in the order in which it is asked for, and returns what gives it back. It fails only with
// the context.
func (l *locks) lock(ctx context.Context, key string) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	if l.all == nil {
		l.all = map[string]*lock{}
	}
	k := l.all[key]
	if k == nil {
		k = &lock{held: make(chan struct{}, 1)}
		l.all[key] = k
	}
	k.users++
	l.mu.Unlock()
	select {
	case k.held <- struct{}{}:
		return func() {
			<-k.held
			l.leave(key, k)
		}, nil
	case <-ctx.Done():
		l.leave(key, k)
		return nil, ctx.Err()
	}
}

func (l *locks) leave(key string, k *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(l.all, key)
	}
}
