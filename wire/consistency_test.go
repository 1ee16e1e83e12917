package wire

import (
	"net/http"
	"testing"
	"time"
)

// FuzzReadTerms: whatever the headers and the parameter are, what is read of them keeps its bounds, or is refused as a
// mistake of the one or the other.
func FuzzReadTerms(f *testing.F) {
	const revision = "basin-one/a%2Fb@0192.7"
	f.Add("eventual", "100", revision, "5000", "")
	f.Add("strong", "", "", "99999999999999999999", revision)
	f.Add("", "", "x", "0", "y")
	f.Fuzz(func(t *testing.T, consistency, age, minimum, timeout, query string) {
		h := http.Header{}
		for name, value := range map[string]string{
			HeaderConsistency: consistency, HeaderMaxAgeMs: age, HeaderMinRevision: minimum, HeaderRevisionTimeoutMs: timeout,
		} {
			if value != "" {
				h.Set(name, value)
			}
		}
		terms, err := ReadTermsOf(h, query)
		if err != nil {
			if e, ok := err.(*Error); !ok || e.Code != CodeBadHeader && (e.Code != CodeBadQuery || query == "" || minimum != "") {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		switch {
		case terms.Timeout < 0 || terms.Timeout > RevisionTimeoutMax:
			t.Errorf("waits for %v", terms.Timeout)
		case terms.MaxAge != nil && (*terms.MaxAge < 0 || *terms.MaxAge > 366*24*time.Hour || !terms.Eventual):
			t.Errorf("an age of %v, eventual %t", *terms.MaxAge, terms.Eventual)
		case terms.Asked != (consistency != "" || minimum != "" || query != ""):
			t.Errorf("asked %t", terms.Asked)
		case (terms.Min != nil) != (minimum != "" || query != ""):
			t.Errorf("demands %v", terms.Min)
		}
	})
}

// FuzzTail: what is read as a tail is written the same way again.
func FuzzTail(f *testing.F) {
	f.Add("3,1700000000000")
	f.Add(" 18446744073709551615 , 0")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParseTail(text)
		if err != nil {
			return
		}
		if again, err := ParseTail(FormatTail(p)); err != nil || again != p {
			t.Fatalf("%q is %+v, and then %+v, %v", text, p, again, err)
		}
	})
}
