package fakes3

import (
	"encoding/hex"
	"encoding/xml"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// pageKeys is the most keys of one page of a listing.
const pageKeys = 1000

type listResult struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	Name                  string
	Prefix                string
	KeyCount              int
	MaxKeys               int
	EncodingType          string `xml:",omitempty"`
	IsTruncated           bool
	NextContinuationToken string `xml:",omitempty"`
	Contents              []listedObject
}

type listedObject struct {
	Key          string
	LastModified string
	ETag         string `xml:",omitempty"`
	Size         int
	StorageClass string
}

// list answers version 2 of the request, without a delimiter.
func (s *Server) list(req Request, b *bucket) answer {
	query := req.Query
	prefix, after := query.Get("prefix"), query.Get("start-after")
	if token := query.Get("continuation-token"); token != "" {
		last, err := hex.DecodeString(token)
		if err != nil {
			return problem{http.StatusBadRequest, "InvalidArgument", "The continuation token is not one."}.answer()
		}
		after = string(last)
	} else if s.quirks.IgnoreStartAfter {
		after = ""
	}
	if query.Get("delimiter") != "" {
		return problem{http.StatusNotImplemented, "NotImplemented", "This store has no folders."}.answer()
	}
	result := listResult{Name: req.Bucket, MaxKeys: s.maxKeys(query), EncodingType: query.Get("encoding-type")}
	encode := func(key string) string { return key }
	if result.EncodingType == "url" {
		encode = url.QueryEscape
	}
	result.Prefix = encode(prefix)
	last := ""
	walked := 0
	for _, key := range s.sorted(b) {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		if s.quirks.WalkLimit && meetsWalk(key, after) {
			if walked++; walked > result.MaxKeys+result.MaxKeys/16+4 {
				break
			}
		}
		if key <= after {
			continue
		}
		if len(result.Contents) == result.MaxKeys {
			result.IsTruncated, result.NextContinuationToken = true, hex.EncodeToString([]byte(last))
			break
		}
		o := b.objects[key]
		if s.quirks.StaleLists {
			if o = o.before; o == nil {
				continue
			}
		}
		result.Contents = append(result.Contents, listedObject{
			Key: encode(key), LastModified: o.modified.UTC().Format(time.RFC3339Nano), ETag: s.etag(o).Get("ETag"),
			Size: len(o.data), StorageClass: "STANDARD",
		})
		last = key
	}
	result.KeyCount = len(result.Contents)
	return inXML(result)
}

func (s *Server) maxKeys(query url.Values) int {
	n, err := strconv.Atoi(query.Get("max-keys"))
	if err != nil || n < 1 || n > pageKeys {
		n = pageKeys
	}
	if s.quirks.PageKeys > 0 {
		n = min(n, s.quirks.PageKeys)
	}
	return n
}

// meetsWalk reports whether a walk that goes on from a key passes another: in the folder where their ways part it is that
// far or further, by the names in that folder.
func meetsWalk(key, from string) bool {
	for {
		part, rest, folder := strings.Cut(key, "/")
		fromPart, fromRest, fromFolder := strings.Cut(from, "/")
		if part != fromPart || !folder || !fromFolder {
			return part >= fromPart
		}
		key, from = rest, fromRest
	}
}
