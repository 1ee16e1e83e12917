package s3objects

import (
	"net/http"
	"sync/atomic"
	"time"
)

// Clock is what is known of a store's clock.
type Clock struct {
	// Offset is how far the store's clock is ahead of this process's; negative if it is behind. The header has whole
	// seconds, so it is good to about a second and the time the answer took.
	Offset time.Duration
	// Seen is when, by this process's clock, the answer came that it was read from. Zero: no answer had a date yet.
	Seen time.Time
}

// storeClock keeps the newest reading. All methods may be called at once.
type storeClock struct {
	now  func() time.Time
	last atomic.Pointer[Clock]
}

func (c *storeClock) read() Clock {
	if last := c.last.Load(); last != nil {
		return *last
	}
	return Clock{}
}

// observe reads the Date of an answer to a request sent at the given time. The store wrote the date between the sending
// and now, at any moment of the second it names.
func (c *storeClock) observe(sent time.Time, answer http.Header) {
	if answer.Get("Age") != "" {
		return // from a cache, as old as it says
	}
	date, err := http.ParseTime(answer.Get("Date"))
	if err != nil {
		return
	}
	now := c.now()
	// Round drops the monotonic reading: after a jump of the wall clock the two disagree, and dates are wall time.
	earliest, latest := date.Sub(now.Round(0)), date.Add(time.Second).Sub(sent.Round(0))
	offset := (earliest + latest) / 2
	if earliest <= 0 && latest >= 0 {
		offset = 0 // no difference is seen
	}
	c.last.Store(&Clock{Offset: offset, Seen: now})
}
