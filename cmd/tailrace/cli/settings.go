package cli

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tailrace-streams/tailrace/client"
	"github.com/tailrace-streams/tailrace/functions/config"
)

// endpointDefault is where `tailrace serve` listens if it is not told otherwise.
const endpointDefault = "http://127.0.0.1:8080"

// settings are the flags of all verbs.
type settings struct {
	endpoint, token, tokenFile string
	compression, caFile        string
	noVerify                   bool
	json                       bool
	timeout                    time.Duration
}

func (s *settings) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&s.endpoint, "endpoint", "", "the server's address (environment "+config.EndpointVariable+
		", S2_ACCOUNT_ENDPOINT and S2_BASIN_ENDPOINT; default "+endpointDefault+")")
	flags.StringVar(&s.token, "token", "", "the access token; the environment and --token-file do not show in lists of processes"+
		" (environment "+config.AccessTokenVariable+", S2_ACCESS_TOKEN)")
	flags.StringVar(&s.tokenFile, "token-file", "", "a file that holds the access token")
	flags.StringVar(&s.caFile, "ca-file", "", "certificates in PEM to trust, instead of the system's, where the server is https (environment "+
		config.CAFileVariable+")")
	flags.BoolVar(&s.noVerify, "insecure", false, "do not check the server's certificate; who is in between can read and change all "+
		"(environment S2_SSL_NO_VERIFY)")
	flags.StringVar(&s.compression, "compression", "none", "compress records on their way: none, zstd or gzip")
	flags.BoolVar(&s.json, "json", false, "print results as JSON, one value a line")
	flags.DurationVar(&s.timeout, "timeout", 0, "give up after this time (default: no limit)")
}

// connect makes the client that the flags and the environment describe. It makes no request.
func (s *settings) connect(w World, retry client.Retry) (*client.Client, error) {
	o := client.Options{Retry: retry, UserAgent: "tailrace-cli"}
	server := cmp.Or(s.endpoint, w.variable(config.EndpointVariable))
	if server == "" {
		server = w.variable("S2_ACCOUNT_ENDPOINT")
		o.BasinEndpoint = w.variable("S2_BASIN_ENDPOINT")
	}
	token, err := s.accessToken(w)
	if err != nil {
		return nil, err
	}
	o.Token = client.Secret(token)
	if o.TLS, err = s.trust(w); err != nil {
		return nil, err
	}
	switch s.compression {
	case "none":
	case "zstd":
		o.Compression = client.CompressionZstd
	case "gzip":
		o.Compression = client.CompressionGzip
	default:
		return nil, usagef("--compression %q is none of none, zstd and gzip", s.compression)
	}
	c, err := client.New(cmp.Or(server, endpointDefault), o)
	if err != nil {
		return nil, fmt.Errorf("%w; %w", err, errUsage)
	}
	return c, nil
}

// trust is whom to believe to be the server, nil for the default.
func (s *settings) trust(w World) (*tls.Config, error) {
	if no, _ := strconv.ParseBool(w.variable("S2_SSL_NO_VERIFY")); s.noVerify || no && s.caFile == "" {
		return &tls.Config{InsecureSkipVerify: true}, nil
	}
	path := cmp.Or(s.caFile, w.variable(config.CAFileVariable))
	if path == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, usagef("--ca-file: %v", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, usagef("--ca-file %s: there is no certificate in PEM in it", path)
	}
	return &tls.Config{RootCAs: roots}, nil
}

func (s *settings) accessToken(w World) (string, error) {
	if s.token != "" || s.tokenFile == "" {
		return cmp.Or(s.token, w.variable(config.AccessTokenVariable), w.variable("S2_ACCESS_TOKEN")), nil
	}
	return secretFile("--token-file", s.tokenFile)
}

// secretFile reads a secret from a file, without the line's end.
func secretFile(flag, path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", usagef("%s: %v", flag, err)
	}
	return strings.TrimSpace(string(data)), nil
}

// variable is the last value of an environment variable.
func (w World) variable(name string) (value string) {
	for _, entry := range w.Environ {
		if v, found := strings.CutPrefix(entry, name+"="); found {
			value = v
		}
	}
	return value
}

// keyFlags are the flags of verbs that handle records, which may be encrypted.
type keyFlags struct{ key, file string }

func (k *keyFlags) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&k.key, "encryption-key", "", "the key of an encrypted stream: 32 bytes in base64 (environment "+
		config.EncryptionKeyVariable+", S2_ENCRYPTION_KEY)")
	flags.StringVar(&k.file, "encryption-key-file", "", "a file that holds the key")
}

// use gives the view of a stream that knows the key, if there is one.
func (k *keyFlags) use(w World, s *client.Stream) (*client.Stream, error) {
	key := cmp.Or(k.key, w.variable(config.EncryptionKeyVariable), w.variable("S2_ENCRYPTION_KEY"))
	if k.file != "" && k.key == "" {
		var err error
		if key, err = secretFile("--encryption-key-file", k.file); err != nil {
			return nil, err
		}
	}
	if key == "" {
		return s, nil
	}
	return s.WithEncryptionKey(client.Secret(key)), nil
}

// sightFlags say how new what is read must be.
type sightFlags struct {
	eventual bool
	min      string
	timeout  time.Duration
}

func (f *sightFlags) addTo(flags *pflag.FlagSet) {
	flags.BoolVar(&f.eventual, "eventual", false, "accept an answer from a cache, a little behind")
	flags.StringVar(&f.min, "min-revision", "", "demand that the answer includes the write that this revision names")
	flags.DurationVar(&f.timeout, "revision-timeout", 5*time.Second, "how long to wait for --min-revision; 0 tries once")
}

func (f *sightFlags) stream(s *client.Stream) *client.Stream {
	if f.eventual {
		s = s.WithEventual()
	}
	if f.min != "" {
		s = s.WithMinRevision(client.Revision(f.min)).WithRevisionTimeout(f.timeout)
	}
	return s
}

func (f *sightFlags) basin(b *client.Basin) *client.Basin {
	if f.eventual {
		b = b.WithEventual()
	}
	if f.min != "" {
		b = b.WithMinRevision(client.Revision(f.min)).WithRevisionTimeout(f.timeout)
	}
	return b
}
