package s3objects

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/s3utils"
	"github.com/minio/minio-go/v7/pkg/signer"
)

// maxSkew is how far the clocks may be apart before requests are dated by the store's. Stores refuse a difference of 15
// minutes; the client library dates by this process's clock and cannot be told otherwise.
const maxSkew = 5 * time.Minute

const (
	signatureScheme = "AWS4-HMAC-SHA256"
	signatureTime   = "20060102T150405Z"
)

// resign returns a signed request as it would be had it been signed at the given time (BL-109). The headers that were
// signed stay the same ones. A request signed in another way is returned as it is.
//
// Source of the format: "Signature Calculations for the Authorization Header", Amazon S3 API Reference.
func resign(req *http.Request, keys Credentials, at time.Time) *http.Request {
	credential, signed, ok := signatureParts(req.Header.Get("Authorization"))
	scope := strings.Split(credential, "/") // ID/DATE/REGION/s3/aws4_request
	if !ok || len(scope) != 5 || scope[0] != keys.AccessKeyID {
		return req
	}
	at = at.UTC()
	scope[1] = at.Format("20060102")
	req = req.Clone(req.Context())
	req.Header.Set("X-Amz-Date", at.Format(signatureTime))
	sum := sha256.Sum256([]byte(canonicalRequest(req, signed)))
	toSign := strings.Join([]string{
		signatureScheme, at.Format(signatureTime), strings.Join(scope[1:], "/"), hex.EncodeToString(sum[:]),
	}, "\n")
	// The library's name for this is about policies; what it does is the last two steps of every signature.
	signature := signer.PostPresignSignatureV4(toSign, at, keys.SecretAccessKey, scope[2])
	req.Header.Set("Authorization", signatureScheme+" Credential="+strings.Join(scope, "/")+
		", SignedHeaders="+signed+", Signature="+signature)
	return req
}

// signatureParts takes an Authorization header apart.
func signatureParts(header string) (credential, signedHeaders string, ok bool) {
	rest, ok := strings.CutPrefix(header, signatureScheme+" ")
	if !ok {
		return "", "", false
	}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "Credential":
			credential = value
		case "SignedHeaders":
			signedHeaders = value
		}
	}
	return credential, signedHeaders, credential != "" && signedHeaders != ""
}

func canonicalRequest(req *http.Request, signed string) string {
	var headers strings.Builder
	for name := range strings.SplitSeq(signed, ";") {
		value := strings.Join(req.Header.Values(name), ",")
		if name == "host" {
			value = req.Host
			if value == "" {
				value = req.URL.Host
			}
		}
		headers.WriteString(name + ":" + strings.Join(strings.Fields(value), " ") + "\n")
	}
	return strings.Join([]string{
		req.Method,
		s3utils.EncodePath(req.URL.Path),
		strings.ReplaceAll(req.URL.Query().Encode(), "+", "%20"),
		headers.String(),
		signed,
		req.Header.Get("X-Amz-Content-Sha256"),
	}, "\n")
}
