package s3objects

import "time"

// ForceOffset makes the client believe that the store's clock is ahead, until the next answer with a date.
func (c *Client) ForceOffset(offset time.Duration) { c.meter.clock.last.Store(&Clock{Offset: offset}) }

// HedgeDelay is how long a GET of a length would wait now.
func (s *Store) HedgeDelay(length int64) time.Duration { return s.hedgeDelay(length) }
