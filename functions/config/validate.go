package config

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// The bounds that the comments of Config state.
const (
	minInflight        = Size(8 << 20) // a quarter of it, one stream's share, holds the largest batch and the next one
	minCache           = Size(1 << 20)
	maxTrimDelay       = 24 * time.Hour
	minShutdownTimeout = time.Second
	maxShutdownTimeout = 10 * time.Minute
	minUpkeepInterval  = time.Second
	maxUpkeepInterval  = 24 * time.Hour
	maxCollectGrace    = 30 * 24 * time.Hour
	maxEventualAge     = time.Minute
	minEventualBytes   = Size(64 << 10)
)

// rules are what a command wants of the settings together.
type rules int

const (
	forStores   rules = iota // where all data lives
	forTable                 // the table alone; the bucket may be left out
	forServing               // as forStores, and what a server reads besides
	forFunction              // stores that processes share
)

// validate notes every rule that c breaks.
func (v *validator) validate(c Config, rules rules) {
	if rules == forFunction {
		v.function(c)
	} else {
		v.listen(c)
	}
	v.auth(c)
	v.tls(c, rules)
	v.stores(c, rules)
	if c.TrimDelay < 0 || c.TrimDelay > maxTrimDelay {
		v.fault("trim-delay", c.TrimDelay, "is out of range", fmt.Sprintf("choose from 0s to %s", maxTrimDelay))
	}
	if c.InflightBytes < minInflight {
		v.fault("inflight-bytes", c.InflightBytes, "is too small", fmt.Sprintf("choose at least %s", minInflight))
	}
	if c.CacheBytes < minCache {
		v.fault("cache-bytes", c.CacheBytes, "is too small", fmt.Sprintf("choose at least %s", minCache))
	}
	if c.EventualMaxAge < 0 || c.EventualMaxAge > maxEventualAge {
		v.fault("eventual-max-age", c.EventualMaxAge, "is out of range", fmt.Sprintf("choose from 0s to %s", maxEventualAge))
	}
	if c.EventualBytes < minEventualBytes {
		v.fault("eventual-bytes", c.EventualBytes, "is too small", fmt.Sprintf("choose at least %s", minEventualBytes))
	}
	if c.ShutdownTimeout < minShutdownTimeout || c.ShutdownTimeout > maxShutdownTimeout {
		v.fault("shutdown-timeout", c.ShutdownTimeout, "is out of range",
			fmt.Sprintf("choose from %s to %s", minShutdownTimeout, maxShutdownTimeout))
	}
	if c.UpkeepInterval < minUpkeepInterval || c.UpkeepInterval > maxUpkeepInterval {
		v.fault("upkeep-interval", c.UpkeepInterval, "is out of range",
			fmt.Sprintf("choose from %s to %s", minUpkeepInterval, maxUpkeepInterval))
	}
	if c.CollectGrace < 0 || c.CollectGrace > maxCollectGrace {
		v.fault("collect-grace", c.CollectGrace, "is out of range", fmt.Sprintf("choose from 0s to %s", maxCollectGrace))
	}
}

// validator judges a configuration. origins says which settings were given and by what, unread which of them have a value
// that could not be read, and so is not known.
type validator struct {
	origins map[string]string
	unread  Faults
	faults  Faults
}

func (v *validator) isUnread(name string) bool {
	return slices.ContainsFunc(v.unread, func(f Fault) bool { return f.Setting == name })
}

func (v *validator) fault(name string, value any, problem, remedy string) {
	origin, given := v.origins[name]
	if !given {
		origin = "default"
	}
	v.faults = append(v.faults, Fault{
		Setting: name, Value: fmt.Sprint(value), Origin: origin, Problem: problem, Remedy: remedy,
	})
}

// listen refuses what is no address, and an open door that nobody asked for.
func (v *validator) listen(c Config) {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		v.fault("listen", c.Listen, "is not an address", "write HOST:PORT, such as 127.0.0.1:8080 or [::1]:8080")
		return
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		v.fault("listen", c.Listen, "has no valid port", "write a port from 0 to 65535 after the last colon")
		return
	}
	if !loopback(host) && !c.Auth && !c.InsecureNoAuth {
		v.fault("listen", c.Listen, "can be reached from other machines, and there is no authentication",
			"set auth, or listen on 127.0.0.1, or set insecure-no-auth to let everybody in")
	}
}

// auth refuses what says two things about who may come in.
func (v *validator) auth(c Config) {
	if c.Auth && c.InsecureNoAuth {
		v.fault("insecure-no-auth", c.InsecureNoAuth, "contradicts auth", "set one of the two")
	}
	if !c.Auth && c.RootToken.Reveal() != "" {
		v.fault("root-token", c.RootToken, "has no effect without auth", "set auth, or remove it")
	}
}

// function refuses what a function cannot do, and doors that nobody asked to be open: whoever may invoke it, or reaches its
// URL, is served.
func (v *validator) function(c Config) {
	if !c.Shared() && !v.isUnread("objects") && !v.isUnread("heads") {
		v.fault("objects", c.Objects, "does not name a bucket that functions share, or heads no table",
			"set both, as in s3://my-bucket/tailrace and dynamodb://tailrace")
	}
	if !c.Auth && !c.InsecureNoAuth && !v.isUnread("auth") {
		v.fault("auth", c.Auth, "leaves the function open to everybody who may invoke it or reaches its URL",
			"set it, or set insecure-no-auth if all of those may do everything")
	}
}

// Exposed reports whether other machines can reach the listening address.
func (c Config) Exposed() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	return err != nil || !loopback(host)
}

// loopback reports whether a host is this machine alone. A name other than localhost is not looked up: what it means
// may differ by the time the socket is opened.
func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}
