package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestUnknownVariables(t *testing.T) {
	t.Parallel()
	for variable, remedy := range map[string]string{
		"TAILRACE_LISTN=secret":               "write TAILRACE_LISTEN",
		"TAILRACE_TRIMDELAY=secret":           "write TAILRACE_TRIM_DELAY",
		"TAILRACE_trim_delay=secret":          "write TAILRACE_TRIM_DELAY",
		"TAILRACE_INSECURE_NOAUTH=secret":     "write TAILRACE_INSECURE_NO_AUTH",
		"TAILRACE_CONFG=secret":               "write TAILRACE_CONFIG",
		"TAILRACE_SHUTDWON_TIMEOUT=secret":    "write TAILRACE_SHUTDOWN_TIMEOUT",
		"TAILRACE_=secret":                    "remove it",
		"TAILRACE_WHOLLY_DIFFERENT=secret":    "remove it",
		"TAILRACE_PORT=secret8080":            "remove it",
		"TAILRACE_SERVICE_HOSTS=secret":       "remove it",
		"TAILRACE_PORT_8080_TCP_ADDRS=secret": "remove it",
		// What is empty is unset, and what belongs to others is theirs.
		"TAILRACE_LISTN=": "", "TAILRACE_LISTN": "", "TAIL_LISTN=x": "", "tailrace_listen=x": "",
		"TAILRACE_E2E_STORES=x": "", "TAILRACE_REQUIRE=all": "", "TAILRACE_SCALE_WRITERS=1": "", "TAILRACE_TEST_FROZEN=1": "",
		"TAILRACE_SERVICE_HOST=10.0.0.1": "", "TAILRACE_SERVICE_PORT=8080": "", "TAILRACE_SERVICE_PORT_HTTP=8080": "",
		"TAILRACE_PORT=tcp://10.0.0.1:8080": "", "TAILRACE_PORT_8080_TCP=tcp://10.0.0.1:8080": "", "TAILRACE_PORT_8080_TCP_PROTO=tcp": "",
		"TAILRACE_WEB_SERVICE_HOST=10.0.0.1": "", "TAILRACE_WEB_PORT=tcp://10.0.0.1:8080": "", "TAILRACE_WEB_PORT_80_UDP_ADDR=10.0.0.1": "",
	} {
		_, err := Load(nil, []string{variable, "TAILRACE_MEMORY=true"})
		if remedy == "" {
			if err != nil {
				t.Errorf("%s: %v, want no fault", variable, err)
			}
			continue
		}
		name, _, _ := strings.Cut(variable, "=")
		if got := faultsOf(t, err); !slices.Equal(got, []string{name}) {
			t.Errorf("%s: faults are in %v", variable, got)
		}
		if !strings.Contains(err.Error(), remedy) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want it to say %q and not the value", variable, err, remedy)
		}
	}
	_, err := load(t, "", []string{"TAILRACE_B=1", "TAILRACE_A=1", "TAILRACE_A=1"}, "--memory", "--tls-cert=/c", "--domain=-")
	if got := faultsOf(t, err); !slices.Equal(got, []string{"TAILRACE_A", "TAILRACE_B", "tls-key", "domain"}) {
		t.Errorf("faults are in %v", got)
	}
}

// A variable that any program or tool of the repository reads or sets is a setting or known to belong to tools: else a server
// started beside them would refuse it. What tests alone read they keep from the servers that they start.
func TestEveryVariableOfTheRepositoryIsKnown(t *testing.T) {
	t.Parallel()
	pattern := regexp.MustCompile(`\bTAILRACE_[A-Z0-9][A-Z0-9_]*[A-Z0-9]\b`)
	used := map[string]string{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", "bin", "node_modules", "tailrace-data", "testdata"}, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Base(path) == "unknown_test.go" || !entry.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		for _, name := range pattern.FindAllString(string(content), -1) {
			if !strings.HasSuffix(path, "_test.go") {
				used[name] = path
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	known := append(variableNames(), clientVariables...)
	for name, path := range used {
		if !slices.Contains(known, name) && !foreign(strings.TrimPrefix(name, envPrefix), "x") {
			t.Errorf("%s of %s is no setting, and not in unknown.go", name, path)
		}
	}
	if len(used) < 40 {
		t.Errorf("only %d variables were found", len(used))
	}
}

func TestDomains(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Domain{
		"": "", "example.com": "example.com", "Example.COM.": "example.com", "localhost": "localhost", "a-b.c1": "a-b.c1",
	} {
		if got, err := ParseDomain(text); err != nil || got != want {
			t.Errorf("%q is %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{
		".", ".example.com", "example..com", "-a.com", "a-.com", "127.0.0.1", "[::1]", "example.com:80", "*.example.com",
		"http://example.com", "example.com/", "a b", "exämple.com", "a_b.com", strings.Repeat("a.", 110) + "com", strings.Repeat("a", 64) + ".com",
	} {
		if got, err := ParseDomain(text); err == nil {
			t.Errorf("%q is %q, want an error", text, got)
		}
	}
}

func FuzzDomain(f *testing.F) {
	f.Add("Example.com.")
	f.Fuzz(func(t *testing.T, text string) {
		domain, err := ParseDomain(text)
		if err != nil {
			return
		}
		if again, err := ParseDomain(string(domain)); err != nil || again != domain {
			t.Errorf("%q is %q, read as %q, %v", text, domain, again, err)
		}
	})
}

// A command that serves looks into the pair; the faults stand beside all others.
func TestLoadForServingLooksIntoThePair(t *testing.T) {
	t.Parallel()
	load := func(args ...string) error {
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		AddFlags(flags)
		if err := flags.Parse(args); err != nil {
			t.Fatal(err)
		}
		_, err := LoadForServing(flags, []string{"TAILRACE_NO_COR=true"})
		return err
	}
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.pem")
	if err := os.WriteFile(bad, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, cert := range map[string]string{"missing": filepath.Join(dir, "none"), "broken": bad, "a folder": dir} {
		err := load("--listen=0.0.0.0:1", "--tls-cert="+cert, "--tls-key="+cert, "--cache-bytes=1")
		if got := faultsOf(t, err); !slices.Equal(got, []string{"TAILRACE_NO_COR", "listen", "tls-cert", "cache-bytes"}) {
			t.Errorf("%s: faults are in %v", name, got)
		}
	}
}
