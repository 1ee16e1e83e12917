package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/tailrace-streams/tailrace/wire"
)

// Domain is what the hosts of basins end with, in lower case and without a dot at the end; empty for none.
type Domain string

// Location is the name of a place where basins are.
type Location string

var (
	domainName   = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	errNotDomain = errors.New("is not a domain")
)

// maxDomainBytes leaves room for a basin's name and a dot in the 253 bytes of a host.
const maxDomainBytes = 253 - wire.BasinNameMax - 1

// ParseDomain reads a domain as an operator writes it. An address is none, since nothing can be below it.
func ParseDomain(text string) (Domain, error) {
	domain := strings.TrimSuffix(strings.ToLower(text), ".")
	if text != "" && (len(domain) > maxDomainBytes || !domainName.MatchString(domain)) {
		return "", fmt.Errorf("%q %w", text, errNotDomain)
	}
	return Domain(domain), nil
}

func parseLocation(text string) (Location, error) {
	return Location(text), wire.CheckLocationName(text, wire.CodeInvalid)
}

// TLS reports whether the server speaks TLS.
func (c Config) TLS() bool { return c.TLSCert != "" && c.TLSKey != "" }

// tls refuses half a pair, and for a command that serves a pair that cannot be used.
func (v *validator) tls(c Config, rules rules) {
	switch {
	case c.TLSKey == "" && c.TLSCert != "":
		v.fault("tls-key", c.TLSKey, "is missing, and tls-cert is set", "name the file of the key, or set neither")
	case c.TLSCert == "" && c.TLSKey != "":
		v.fault("tls-cert", c.TLSCert, "is missing, and tls-key is set", "name the file of the certificate, or set neither")
	case c.TLS() && rules == forServing:
		if _, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey); err != nil {
			v.fault("tls-cert", c.TLSCert, "and tls-key cannot be used: "+err.Error(),
				"name PEM files of a certificate and of its own key without a passphrase")
		}
	}
}
