package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/rand/v2"
	"time"
)

// AppendRetry says which failed appends are sent again.
type AppendRetry uint8

const (
	// RetryNoSideEffects sends an append again only if it certainly was not applied. It is the default: a plain append is
	// in the stream at most once, and one whose outcome is unknown fails as such.
	RetryNoSideEffects AppendRetry = iota
	// RetryAll sends an append again also if the outcome is unknown. A plain append is then in the stream at least once;
	// one with match_seq_num at most once, for a repeat of what landed is refused with a [SequenceError] that says
	// Resent.
	RetryAll
	// RetryNone sends no append twice.
	RetryNone
)

// Retry says how often and when a request is sent again. The zero Retry means the defaults.
type Retry struct {
	// Appends is the policy for appends. Other requests are always sent again: they change nothing, or the same.
	Appends AppendRetry
	// Attempts is the most attempts of one call, the first included, and the most in a row of a session that get nowhere;
	// a reader that follows goes on until its context ends. Default 8; 1 sends nothing again.
	Attempts int
	// MinDelay and MaxDelay bound the pause before a further attempt, which doubles from one to the other and of which a
	// random part, up to a half, is taken off. Defaults 50 ms and 2 s. The server's retry-after-ms makes it longer, never
	// shorter.
	MinDelay, MaxDelay time.Duration
}

const (
	attemptsDefault = 8
	minDelayDefault = 50 * time.Millisecond
	maxDelayDefault = 2 * time.Second
)

func (r Retry) withDefaults() Retry {
	if r.Attempts <= 0 {
		r.Attempts = attemptsDefault
	}
	if r.MinDelay <= 0 {
		r.MinDelay = minDelayDefault
	}
	if r.MaxDelay <= 0 {
		r.MaxDelay = maxDelayDefault
	}
	r.MaxDelay = max(r.MaxDelay, r.MinDelay)
	return r
}

// delay is the pause after the n-th failure in a row, n from 1.
func (r Retry) delay(n int, after time.Duration) time.Duration {
	d := r.MinDelay
	for i := 1; i < n && d < r.MaxDelay; i++ {
		d *= 2
	}
	d = min(d, r.MaxDelay)
	d -= rand.N(d/2 + 1)
	return max(d, after)
}

// pause waits for d. It does not begin to if the context would end before, and reports whether there is time left.
func pause(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// mayPass reports whether a transport's failure may be over at another attempt. A server that is not who it should be
// stays that.
func mayPass(err error) bool {
	var (
		certificate *tls.CertificateVerificationError
		authority   x509.UnknownAuthorityError
		host        x509.HostnameError
		record      tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, context.Canceled):
		return false
	case errors.As(err, &certificate), errors.As(err, &authority), errors.As(err, &host), errors.As(err, &record):
		return false
	}
	return true
}
