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

	// A file with the server's certificate and those that lead from it to a root, as PEM. With it and tls-key the server
	// speaks TLS 1.2 and later, with HTTP/2 and HTTP/1.1, and nothing else. Both files are read again when they change; a
	// pair that is broken is not taken, and the log says so.
	TLSCert string `setting:"tls-cert" default:""`

	// A file with the private key of tls-cert, as PEM without a passphrase.
	TLSKey string `setting:"tls-key" default:""`

	// The domain that basins are addressed below: with example.com, the host my-basin.example.com stands for the header
	// s2-basin: my-basin. The domain itself and hosts elsewhere go on as without it. Needs a DNS entry for *.DOMAIN, and
	// with TLS a certificate for it.
	Domain Domain `setting:"domain" default:""`

	// The name of the one location that basins are in: what /v1/locations lists and new basins are given. 1 to 64
	// letters, digits, colons, dots and hyphens. A basin keeps the name that it was made with.
	Location Location `setting:"location" default:"local"`

	// Asks every request for an access token, except for health, ping and ready. The first start with it makes the root
	// token and shows it once, unless root-token is set. docs/tokens.md has the rest.
	Auth bool `setting:"auth" default:"false"`

	// The operator's token, which may do everything: 24 or more characters of an unguessable text, such as openssl rand
	// -hex 32 prints. It takes the place of the one that was made at the first start. Needs auth. No flag, since every
	// user of the machine can read the arguments of a process, and never shown.
	RootToken Secret `setting:"root-token" default:""`

	// Refuses calls from web pages. Without it every page that a browser on this machine shows may call the API.
	NoCORS bool `setting:"no-cors" default:"false"`

	// The folder that holds everything: made if it is missing, refused if it is not one of ours, locked against a second
	// process. Its file system must honour fsync. Not used with objects and heads.
	Data string `setting:"data" default:"./tailrace-data"`

	// Keeps everything in memory and forgets it at the end: for tests and for trying things out. Excludes data.
	Memory bool `setting:"memory" default:"false"`

	// The bucket that holds records, below a prefix that is tailrace's alone: s3://BUCKET or s3://BUCKET/PREFIX. It must
	// exist, on any S3-compatible store. Any number of servers may use it at once. Needs heads; excludes data and memory.
	Objects ObjectsURL `setting:"objects" default:""`

	// Where the heads of streams and the control records are. A DynamoDB table: dynamodb://TABLE, set up by tailrace admin
	// create-table. Or a bucket: s3://BUCKET/PREFIX, the prefix of at most 120 characters and apart from that of objects, in
	// a store that keeps conditional writes, which is tried at every start. Belongs to the objects it is first used with.
	// Needs objects.
	Heads HeadsURL `setting:"heads" default:""`

	// The AWS region of the bucket and the table. Empty: what AWS_REGION or the profile says; where all endpoints are
	// given and nothing says a region, us-east-1. Credentials come from the standard AWS sources, wherever the stores are.
	AWSRegion Region `setting:"aws-region" default:""`

	// The URL of an S3-compatible store that is not AWS's own, such as http://127.0.0.1:9000. Empty: what
	// AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL says, or else AWS.
	S3Endpoint Endpoint `setting:"s3-endpoint" default:""`

	// The region that requests to the object store are signed for, where it is not the one of the table.
	S3Region Region `setting:"s3-region" default:""`

	// Where requests name the bucket: path (http://HOST/BUCKET/KEY), host (https://BUCKET.HOST/KEY), or auto, which is
	// host for the large clouds that want it and path for every other store.
	S3Addressing Addressing `setting:"s3-addressing" default:"auto"`

	// The URL of a DynamoDB that is not AWS's own, such as http://127.0.0.1:4567. Empty: what AWS_ENDPOINT_URL_DYNAMODB
	// or AWS_ENDPOINT_URL says, or else AWS.
	DynamoDBEndpoint Endpoint `setting:"dynamodb-endpoint" default:""`

	// How long readers still see records after they were trimmed. Clients trim right behind what others are reading, so
	// a short delay breaks them; 0s is for tests. At most 24h.
	TrimDelay time.Duration `setting:"trim-delay" default:"10s"`

	// The size of all appends that were accepted and not yet answered, in the whole process; one basin may use half of
	// it, one stream a quarter. Beyond it appends wait for up to a second and are then refused, definitely. At least 8MiB.
	InflightBytes Size `setting:"inflight-bytes" default:"128MiB"`

	// The size of the cache of stored data that reads share. A data folder needs little, since the system caches its
	// files; with a bucket, more saves requests. At least 1MiB.
	CacheBytes Size `setting:"cache-bytes" default:"16MiB"`

	// How old the answer to a read with Tailrace-Consistency: eventual may be. Such reads are answered from memory and ask
	// no store; a longer time saves more requests. 0s answers them like all others. At most 1m.
	EventualMaxAge time.Duration `setting:"eventual-max-age" default:"5s"`

	// The size of what eventual reads are answered from: half for the states of streams, of which one basin may use half,
	// and half for listings and configs of basins, of which one basin may use a quarter. At least 64KiB.
	EventualBytes Size `setting:"eventual-bytes" default:"16MiB"`

	// How often every stream is looked at for what is due: records that expired or were trimmed, streams to be deleted
	// when empty, objects that nothing refers to any more. A round also rests nine times as long as it took. From 1s to
	// 24h.
	UpkeepInterval time.Duration `setting:"upkeep-interval" default:"1m"`

	// How old an object must be before it is deleted because nothing refers to it. Nothing that is in use is deleted
	// however short it is; a long one only keeps more garbage, a short one makes appends in flight try again. At most
	// 30 days.
	CollectGrace time.Duration `setting:"collect-grace" default:"1m"`

	// How long a stop may take, from SIGTERM or SIGINT to the end of the process: accepted appends are finished and
	// answered, followers are told to go elsewhere, and what then still reads is cut off. A second signal, from one second after the first, does not wait.
	// From 1s to 10m.
	ShutdownTimeout time.Duration `setting:"shutdown-timeout" default:"20s"`

	// How the URL of a function is set up on AWS: buffered, or response-stream for InvokeMode RESPONSE_STREAM, where answers
	// are sent while they are made. Events do not tell. Only for functions.
	FunctionURLMode FunctionURLMode `setting:"function-url-mode" default:"buffered"`

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

// Secret is text that nothing shows: it is written as asterisks wherever it is written, but by Reveal.
type Secret struct{ text string }

// Reveal is the text.
func (s Secret) Reveal() string { return s.text }

// String hides the text, and tells only whether there is any.
func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return "***"
}

// GoString hides it from %#v too, as String does from the rest.
func (s Secret) GoString() string { return s.String() }

// MarshalText hides it from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// FunctionURLMode is the invoke mode of a Lambda function's URL.
type FunctionURLMode string

// The modes, which AWS calls BUFFERED and RESPONSE_STREAM.
const (
	URLBuffered FunctionURLMode = "buffered"
	URLStream   FunctionURLMode = "response-stream"
)
