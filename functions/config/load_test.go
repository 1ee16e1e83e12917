package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// load parses a command line and loads; file, if not empty, is what --config names.
func load(t *testing.T, file string, environ []string, args ...string) (Config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(flags)
	if file != "" {
		path := filepath.Join(t.TempDir(), "tailrace.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--config", path)
	}
	if err := flags.Parse(args); err != nil {
		t.Fatalf("parse flags: %v", err)
	}
	return Load(flags, environ)
}

func faultsOf(t *testing.T, err error) []string {
	t.Helper()
	var faults Faults
	if !errors.As(err, &faults) {
		t.Fatalf("load: %v, want faults", err)
	}
	var names []string
	for _, f := range faults {
		names = append(names, f.Setting)
		if f.Problem == "" || f.Remedy == "" || f.Origin == "" {
			t.Errorf("fault %+v does not say what is wrong, where, and what to do", f)
		}
		if !strings.Contains(err.Error(), f.String()) {
			t.Errorf("error %q leaves out %q", err, f)
		}
	}
	return names
}

func TestLoadWithNothingGivesDefaults(t *testing.T) {
	t.Parallel()
	want := Config{
		Listen: "127.0.0.1:8080", Data: "./tailrace-data", TrimDelay: 10 * time.Second,
		InflightBytes: 128 << 20, CacheBytes: 16 << 20, UpkeepInterval: time.Minute, CollectGrace: time.Minute,
		EventualMaxAge: 5 * time.Second, EventualBytes: 16 << 20,
		ShutdownTimeout: 20 * time.Second,
		S3Addressing:    AddressAuto,
		FunctionURLMode: URLBuffered,
		Location:        "local",
		LogLevel:        LogInfo, LogFormat: LogAuto,
	}
	for name, flags := range map[string]*pflag.FlagSet{"flags": pflag.NewFlagSet("", pflag.ContinueOnError), "none": nil} {
		if flags != nil {
			AddFlags(flags)
		}
		got, err := Load(flags, nil)
		if err != nil {
			t.Fatalf("%s: load: %v", name, err)
		}
		if got != want {
			t.Errorf("%s: config is %+v, want %+v", name, got, want)
		}
	}
}

// Each source sets one setting alone and all settings that the later ones set too.
func TestLoadPrefersFlagsThenEnvironmentThenFile(t *testing.T) {
	t.Parallel()
	got, err := load(t, "log-level: trace\ntrim-delay: 1s\ncache-bytes: 1MiB\nlisten: localhost:1\n",
		[]string{"TAILRACE_TRIM_DELAY=2s", "TAILRACE_CACHE_BYTES=2MiB", "TAILRACE_LISTEN=localhost:2"},
		"--cache-bytes=3MiB", "--listen", "localhost:3")
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	if got.LogLevel != LogTrace || got.TrimDelay != 2*time.Second || got.CacheBytes != 3<<20 || got.Listen != "localhost:3" {
		t.Errorf("config is %+v, want file, environment, flag, flag to have won", got)
	}
}

// Every setting has to be reachable from every source, under the name that the manual states.
func TestEverySettingFromEverySource(t *testing.T) {
	t.Parallel()
	values := map[string]string{
		"listen": "localhost:9", "insecure-no-auth": "true", "data": "/elsewhere", "memory": "true", "no-cors": "true",
		"auth": "true", "root-token": "0123456789abcdef0123456789abcdef",
		"tls-cert": "/c.pem", "tls-key": "/k.pem", "domain": "example.com", "location": "aws:us-east-1",
		"trim-delay": "7s", "inflight-bytes": "9MiB", "cache-bytes": "5MiB", "shutdown-timeout": "3s",
		"upkeep-interval": "5m", "collect-grace": "0s", "eventual-max-age": "0s", "eventual-bytes": "1MiB",
		"log-level": "error", "log-format": "json", "function-url-mode": "response-stream",
		"objects": "s3://bucket/a/b", "heads": "dynamodb://table", "aws-region": "eu-west-1", "s3-region": "auto",
		"s3-endpoint": "http://127.0.0.1:9000", "s3-addressing": "host", "dynamodb-endpoint": "https://dynamodb.example",
	}
	// What a setting needs beside it to make sense.
	beside := map[string]string{"tls-cert": "tls-key: " + values["tls-key"] + "\n", "tls-key": "tls-cert: " + values["tls-cert"] + "\n"}
	beside["root-token"] = "auth: true\n"
	for _, name := range []string{"aws-region", "s3-region", "s3-endpoint", "s3-addressing", "dynamodb-endpoint"} {
		beside[name] = "heads: " + values["heads"] + "\nobjects: " + values["objects"] + "\n"
	}
	beside["objects"], beside["heads"] = "heads: "+values["heads"]+"\n", "objects: "+values["objects"]+"\n"
	for _, s := range settings {
		value, known := values[s.name]
		if !known || value == s.def {
			t.Errorf("%s has no value of its own in this test", s.name)
			continue
		}
		var want Config
		for _, other := range settings {
			if err := other.set(&want, other.def); err != nil {
				t.Fatalf("default of %s: %v", other.name, err)
			}
		}
		with := map[string]string{s.name: value}
		for _, pair := range [][2]string{{"objects", "heads"}, {"tls-cert", "tls-key"}} {
			if strings.Contains(beside[s.name], pair[0]+": ") || strings.Contains(beside[s.name], pair[1]+": ") {
				with[pair[0]], with[pair[1]] = values[pair[0]], values[pair[1]]
			}
		}
		if beside[s.name] == "auth: true\n" {
			with["auth"] = "true"
		}
		for name, value := range with {
			if err := find(name).set(&want, value); err != nil {
				t.Fatalf("value of %s: %v", name, err)
			}
		}
		for source, load := range map[string]func() (Config, error){
			"flag":        func() (Config, error) { return load(t, beside[s.name], nil, "--"+s.name+"="+value) },
			"environment": func() (Config, error) { return load(t, beside[s.name], []string{s.variable + "=" + value}) },
			"file":        func() (Config, error) { return load(t, beside[s.name]+s.name+": "+value, nil) },
		} {
			if s.secret() && source == "flag" {
				continue
			}
			if got, err := load(); err != nil || got != want {
				t.Errorf("%s from %s: %+v, %v, want %+v", s.name, source, got, err, want)
			}
		}
	}
}

func TestLoadReportsEveryFaultAtOnce(t *testing.T) {
	t.Parallel()
	_, err := load(t, "trim_delay: 3s\nlog-level: loud\nshutdown-timeout: 0s\ncache-bytes:\n",
		[]string{"TAILRACE_INFLIGHT_BYTES=lots"},
		"--listen=nowhere", "--memory=perhaps", "--trim-delay=12")
	got := faultsOf(t, err)
	want := []string{
		"trim_delay", "listen", "memory", "trim-delay", "inflight-bytes", "cache-bytes", "shutdown-timeout", "log-level",
	}
	if !slices.Equal(got, want) {
		t.Errorf("faults are in %v, want %v", got, want)
	}
	for _, part := range []string{
		"the configuration has 8 faults", `trim_delay = "(not shown)" (file `, "write trim-delay", "environment TAILRACE_INFLIGHT_BYTES",
		`(--trim-delay) is not valid; write a number with a unit`,
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error\n%v\nlacks %q", err, part)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file string
		environ    []string
		args       []string
		want       string // the setting at fault, or none
	}{
		{name: "all interfaces", args: []string{"--listen=0.0.0.0:1"}, want: "listen"},
		{name: "all interfaces without a host", args: []string{"--listen=:1"}, want: "listen"},
		{name: "all interfaces, with tokens", args: []string{"--listen=:1", "--auth"}},
		{name: "tokens and none", args: []string{"--auth", "--insecure-no-auth"}, want: "insecure-no-auth"},
		{name: "a root token and none asked for", environ: []string{"TAILRACE_ROOT_TOKEN=0123456789abcdef0123456789abcdef"}, want: "root-token"},
		{name: "a short root token", args: []string{"--auth"}, environ: []string{"TAILRACE_ROOT_TOKEN=secret"}, want: "root-token"},
		{name: "a root token of words", args: []string{"--auth"}, file: "root-token: a token that has spaces in it", want: "root-token"},
		{name: "all interfaces, wanted", args: []string{"--listen=:1", "--insecure-no-auth"}},
		{name: "another host", environ: []string{"TAILRACE_LISTEN=example.com:80"}, want: "listen"},
		{name: "IPv6 all", file: `listen: "[::]:1"`, want: "listen"},
		{name: "IPv6 loopback", file: `listen: "[::1]:1"`},
		{name: "IPv4 in IPv6 loopback", args: []string{"--listen=[::ffff:127.0.0.1]:1"}},
		{name: "any loopback address", args: []string{"--listen=127.9.9.9:1"}},
		{name: "a port out of range", args: []string{"--listen=127.0.0.1:65536"}, want: "listen"},
		{name: "a port by name", args: []string{"--listen=127.0.0.1:http"}, want: "listen"},
		{name: "no port", args: []string{"--listen=127.0.0.1"}, want: "listen"},
		{name: "memory and data", args: []string{"--memory"}, environ: []string{"TAILRACE_DATA=/x"}, want: "data"},
		{name: "memory alone", args: []string{"--memory"}},
		{name: "data and no memory", args: []string{"--memory=false", "--data=/x"}},
		{name: "no data folder", args: []string{"--data="}, want: "data"},
		{name: "an empty variable", environ: []string{"TAILRACE_DATA="}},
		{name: "negative delay", args: []string{"--trim-delay=-1s"}, want: "trim-delay"},
		{name: "no delay", args: []string{"--trim-delay=0s"}},
		{name: "a delay of days", args: []string{"--trim-delay=25h"}, want: "trim-delay"},
		{name: "little in flight", args: []string{"--inflight-bytes=1MiB"}, want: "inflight-bytes"},
		{name: "a tiny cache", args: []string{"--cache-bytes=0"}, want: "cache-bytes"},
		{name: "upkeep all the time", args: []string{"--upkeep-interval=0s"}, want: "upkeep-interval"},
		{name: "upkeep never", args: []string{"--upkeep-interval=25h"}, want: "upkeep-interval"},
		{name: "negative grace", args: []string{"--collect-grace=-1s"}, want: "collect-grace"},
		{name: "a negative age", args: []string{"--eventual-max-age=-1s"}, want: "eventual-max-age"},
		{name: "an age of hours", args: []string{"--eventual-max-age=1h"}, want: "eventual-max-age"},
		{name: "no room for eventual reads", args: []string{"--eventual-bytes=0"}, want: "eventual-bytes"},
		{name: "an endless stop", args: []string{"--shutdown-timeout=1h"}, want: "shutdown-timeout"},
		{name: "an unknown key", file: "lisen: x", want: "lisen"},
		{name: "a nested key", file: "listen:\n  host: x", want: "listen.host"},
		{name: "a list", file: "listen: [127.0.0.1:80]", want: "listen"},
		{name: "an empty map", file: "listen: {}", want: "listen"},
		{name: "a key twice", file: "memory: true\nmemory: false", want: "config"},
		{name: "a file that is no map", file: "- a", want: "config"},
		{name: "a file that is no YAML", file: "a: [", want: "config"},
		{name: "a file of comments", file: "# nothing\n"},
		{name: "no such file", args: []string{"--config=/does/not/exist"}, want: "config"},
		{name: "no such file by variable", environ: []string{"TAILRACE_CONFIG=/does/not/exist"}, want: "config"},
		{name: "variables that are none of ours", environ: []string{"TAILRACE_BIN=x", "TRIM_DELAY=x", "TAILRACE_MEMORY"}},
		{name: "half a pair", args: []string{"--tls-cert=/c"}, want: "tls-key"},
		{name: "the other half", environ: []string{"TAILRACE_TLS_KEY=/k"}, want: "tls-cert"},
		{name: "a pair, not looked into", args: []string{"--tls-cert=/c", "--tls-key=/k"}},
		{name: "an address for a domain", args: []string{"--domain=127.0.0.1"}, want: "domain"},
		{name: "a domain with a port", args: []string{"--domain=example.com:80"}, want: "domain"},
		{name: "a bad location", args: []string{"--location=here and there"}, want: "location"},
		{name: "no location", args: []string{"--location="}, want: "location"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := load(t, test.file, test.environ, test.args...)
			if test.want == "" {
				if err != nil {
					t.Errorf("load: %v, want no fault", err)
				}
				return
			}
			if got := faultsOf(t, err); !slices.Equal(got, []string{test.want}) {
				t.Errorf("faults are in %v, want in %s alone", got, test.want)
			}
		})
	}
}

func TestSettingsAreWellFormed(t *testing.T) {
	t.Parallel()
	for _, s := range settings {
		if s.name == "" || s.name != strings.ToLower(s.name) || strings.ContainsAny(s.name, "_. ") {
			t.Errorf("field %s has the setting name %q", s.field, s.name)
		}
		if s.name == FileFlag {
			t.Errorf("field %s takes the name of the file flag", s.field)
		}
		if s.kind.Kind() != reflect.String && s.form() == "text" {
			t.Errorf("field %s is a %s, which has no form", s.field, s.kind)
		}
	}
}

func TestSizeText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Size{
		"0": 0, "1": 1, "1023": 1023, "1KiB": 1 << 10, "3 MiB": 3 << 20, "2GiB": 2 << 30, "8388607TiB": 8388607 << 40,
		"9223372036854775807": 1<<63 - 1,
	} {
		got, err := ParseSize(text)
		if err != nil || got != want {
			t.Errorf("size %q is %d, %v, want %d", text, got, err, want)
		}
		if again, err := ParseSize(got.String()); err != nil || again != want {
			t.Errorf("size %d is written %q, read as %d, %v", got, got, again, err)
		}
	}
	for _, text := range []string{"", "-1", "1.5MiB", "1MB", "MiB", "1mib", "8388608TiB", "9223372036854775808", "0x10", "1_0", "1  KiB"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("size %q is %d, want an error", text, got)
		}
	}
}

func FuzzLoadFile(f *testing.F) {
	f.Add([]byte("listen: 127.0.0.1:1\ntrim-delay: 1s\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("memory: !!binary 00\n1: 2\n? [x]\n: y"))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(nil, []string{FileVariable + "=" + path})
		var faults Faults
		if err != nil && !errors.As(err, &faults) {
			t.Errorf("load: %v, want faults or nothing", err)
		}
	})
}

// A secret is in no error, no dump and no flag, whatever is wrong with it.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	for name, environ := range map[string][]string{
		"too short": {"TAILRACE_ROOT_TOKEN=hush-hush", "TAILRACE_AUTH=true"}, "without effect": {"TAILRACE_ROOT_TOKEN=hush-hush-hush-hush-hush-hush"},
	} {
		_, err := load(t, "", environ)
		if err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "***") {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg, err := load(t, "", []string{"TAILRACE_ROOT_TOKEN=hush-hush-hush-hush-hush-hush", "TAILRACE_AUTH=true"})
	if err != nil || cfg.RootToken.Reveal() != "hush-hush-hush-hush-hush-hush" {
		t.Fatalf("%v", err)
	}
	encoded, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(cfg), fmt.Sprintf("%+v %#v", cfg, cfg), string(encoded)} {
		if strings.Contains(text, "hush") {
			t.Errorf("the secret is in %s", text)
		}
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(flags)
	if flags.Lookup("root-token") != nil {
		t.Error("there is a flag for a secret")
	}
}

func TestLoadForFunction(t *testing.T) {
	t.Parallel()
	_, err := LoadForFunction(nil)
	if text := fmt.Sprint(err); !strings.Contains(text, "objects = ") || !strings.Contains(text, "auth = ") {
		t.Errorf("a function without settings: %v", err)
	}
	c, err := LoadForFunction([]string{
		"TAILRACE_OBJECTS=s3://bucket", "TAILRACE_HEADS=dynamodb://table", "TAILRACE_INSECURE_NO_AUTH=true", "TAILRACE_FUNCTION_URL_MODE=response-stream",
	})
	if err != nil || c.FunctionURLMode != URLStream {
		t.Errorf("a function's settings are %+v, %v", c, err)
	}
}
