// Package config reads what a server is told at its start: one documented struct, filled once in main from flags, the
// environment and a file, with every fault reported together. See README.md.
package config

import "time"

// Config is everything an operator can set. The comments of its fields are the manual: flag help and
// docs/configuration.md are made from them. The tag setting is the one name of a setting, from which the other forms
// follow: flag --trim-delay, environment TAILRACE_TRIM_DELAY, key trim-delay in the file.
type Config struct {
	// The address and port to serve HTTP on. Port 0 takes a free one; the first line of output names it. Without
	// authentication only an address of this machine alone (127.0.0.1, ::1, localhost) is accepted, unless
	// insecure-no-auth is set.
	Listen string `setting:"listen" default:"127.0.0.1:8080"`

	// Lets everybody who can reach the listening address read, write and delete everything. Needed to listen beyond
	// this machine, since there is no authentication; put a proxy that has one in front.
	InsecureNoAuth bool `setting:"insecure-no-auth" default:"false"`

	// Refuses calls from web pages. Without it every page that a browser on this machine shows may call the API.
	NoCORS bool `setting:"no-cors" default:"false"`

	// The folder that holds everything: made if it is missing, refused if it is not one of ours, locked against a second
	// process. Its file system must honour fsync.
	Data string `setting:"data" default:"./tailrace-data"`

	// Keeps everything in memory and forgets it at the end: for tests and for trying things out. Excludes data.
	Memory bool `setting:"memory" default:"false"`

	// How long readers still see records after they were trimmed. Clients trim right behind what others are reading, so
	// a short delay breaks them; 0s is for tests. At most 24h.
	TrimDelay time.Duration `setting:"trim-delay" default:"10s"`

	// The size of all appends that were accepted and not yet answered, in the whole process; one basin may use half of
	// it, one stream a quarter. Beyond it appends wait for up to a second and are then refused, definitely. At least 8MiB.
	InflightBytes Size `setting:"inflight-bytes" default:"128MiB"`

	// The size of the cache of stored data that reads share. At least 1MiB.
	CacheBytes Size `setting:"cache-bytes" default:"64MiB"`

	// How often every stream is looked at for what is due: records that expired or were trimmed, streams to be deleted
	// when empty, objects that nothing refers to any more. A round also rests nine times as long as it took. From 1s to
	// 24h.
	UpkeepInterval time.Duration `setting:"upkeep-interval" default:"1m"`

	// How old an object must be before it is deleted because nothing refers to it. Nothing that is in use is deleted
	// however short it is; a long one only keeps more garbage, a short one makes appends in flight try again. At most
	// 30 days.
	CollectGrace time.Duration `setting:"collect-grace" default:"1m"`

	// How long a stop may take, from SIGTERM or SIGINT to the end of the process: accepted appends are finished and
	// answered, followers are told to go elsewhere, and what then still reads is cut off. A second signal does not wait.
	// From 1s to 10m.
	ShutdownTimeout time.Duration `setting:"shutdown-timeout" default:"20s"`

	// The least level that is logged: trace, debug, info, warn or error.
	LogLevel LogLevel `setting:"log-level" default:"info"`

	// How log lines on stderr look: json, console for people, or auto, which is console on a terminal and else json.
	LogFormat LogFormat `setting:"log-format" default:"auto"`
}

// LogLevel is the least severity that is logged.
type LogLevel string

// The levels, from the most talkative.
const (
	LogTrace LogLevel = "trace"
	LogDebug LogLevel = "debug"
	LogInfo  LogLevel = "info"
	LogWarn  LogLevel = "warn"
	LogError LogLevel = "error"
)

// LogFormat is how log lines look.
type LogFormat string

// The formats; LogAuto chooses by whether stderr is a terminal.
const (
	LogAuto    LogFormat = "auto"
	LogJSON    LogFormat = "json"
	LogConsole LogFormat = "console"
)
