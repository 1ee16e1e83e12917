package tenancy

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"strings"
)

// The text of an access token, which its holder sends, is bearerPrefix and the base64 (URL alphabet, no padding) of:
// a byte for the kind, the account's id and the token's id with a byte before each for its length, and the secret. The
// names are in it so that it is looked up by one read of one row, which is also the only row that it has; they are no
// secret to whoever holds it. The root token that a server makes for itself has neither.
const (
	bearerPrefix = "tr_"
	secretBytes  = 32
	accountMax   = 64
	// tokenIDMax is the S2 API's.
	tokenIDMax = 96
)

type bearerKind byte

const (
	accessBearer bearerKind = 1
	rootBearer   bearerKind = 2
)

// claim is what the text of a token says of itself; whether it is true, its row's hash tells.
type claim struct {
	kind    bearerKind
	account AccountID
	token   string
}

// digestOf is what is stored of a token. The secret has 256 random bits, so a plain hash keeps it.
func digestOf(bearer string) [sha256.Size]byte { return sha256.Sum256([]byte(bearer)) }

// sameDigest compares in constant time.
func sameDigest(stored string, sum [sha256.Size]byte) bool {
	raw, err := hex.DecodeString(stored)
	return err == nil && subtle.ConstantTimeCompare(raw, sum[:]) == 1
}

func hexOf(sum [sha256.Size]byte) string { return hex.EncodeToString(sum[:]) }

// newBearer makes the text of a token with a new secret.
func newBearer(c claim) string {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails; without randomness the process ends
	return bearerOf(c, secret)
}

func bearerOf(c claim, secret []byte) string {
	raw := []byte{byte(c.kind)}
	if c.kind == accessBearer {
		raw = append(append(raw, byte(len(c.account))), c.account...)
		raw = append(append(raw, byte(len(c.token))), c.token...)
	}
	return bearerPrefix + base64.RawURLEncoding.EncodeToString(append(raw, secret...))
}

// bearerMax is the longest text of a token.
var bearerMax = len(bearerPrefix) + base64.RawURLEncoding.EncodedLen(3+accountMax+tokenIDMax+secretBytes)

// parseBearer reads the text of a token of ours; false for anything else. Each token has one text.
func parseBearer(text string) (c claim, ok bool) {
	encoded, ok := strings.CutPrefix(text, bearerPrefix)
	if !ok || len(text) > bearerMax {
		return c, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || strings.ContainsAny(encoded, "\r\n") || len(raw) < 1 {
		return c, false // the decoder passes over line ends
	}
	c.kind, raw = bearerKind(raw[0]), raw[1:]
	switch c.kind {
	case rootBearer:
		return c, len(raw) == secretBytes
	case accessBearer:
		var account, token []byte
		if account, raw, ok = counted(raw, accountMax); !ok {
			return c, false
		}
		if token, raw, ok = counted(raw, tokenIDMax); !ok {
			return c, false
		}
		c.account, c.token = AccountID(account), string(token)
		return c, len(raw) == secretBytes && validAccount(c.account) && checkName("token", c.token) == nil
	}
	return c, false
}

// counted takes a text with its length before it off raw.
func counted(raw []byte, most int) (text, rest []byte, ok bool) {
	if len(raw) < 1 || raw[0] == 0 || int(raw[0]) > most || len(raw) < 1+int(raw[0]) {
		return nil, nil, false
	}
	n := 1 + int(raw[0])
	return raw[1:n], raw[n:], true
}

// validAccount reports whether an id is one that could have been given: lower-case letters, digits and "-".
func validAccount(id AccountID) bool {
	if id == "" || len(id) > accountMax {
		return false
	}
	for i := range len(id) {
		if c := id[i]; !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-') {
			return false
		}
	}
	return true
}
