package s3store

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"strings"

	"github.com/tailrace-streams/tailrace/segments"
)

// Where things lie below the prefix.
const (
	markerKey   = "store"
	headsFolder = "heads/"
	rowsFolder  = "rows/"
	probeFolder = "probe/"
)

// headKey is where a stream's head lies. The last byte of an id is random, the first ones are the time: the folder by it
// spreads what was made together.
func headKey(id segments.StreamID) string {
	text := id.String()
	return headsFolder + text[len(text)-2:] + "/" + text
}

// A sort key becomes a path that sorts like it, bytewise, and can be read back: five bits a character, cut into folders of
// folderChars, and at the end of the last part a terminator that is below every other character. So no object is named like
// a folder beside it, which a file system could not hold, and no name goes on where a folder's ends, which MinIO's
// listings cannot stand (segments/s3objects). A key longer than plainBytes, which S3 has no room for, ends in a digest
// of all of it instead: such keys sort among the others by their first plainBytes, and among themselves by what is in them.
const (
	digits      = "123456789abcdefghijklmnopqrstuvw"
	terminator  = "0"
	folderChars = segments.MaxKeyPartBytes
	plainBytes  = 512
	hashMark    = "z"
	hashChars   = 26 // 130 bits
)

var (
	sortEncoding = base32.NewEncoding(digits).WithPadding(base32.NoPadding)
	// afterPlain is above the terminator and below the mark, justBelow below the terminator; both are nowhere in a key.
	afterPlain, justBelow = "y", "-"
)

// partFolder is where the rows of a part lie. Nothing lists parts, so their names need no order.
func partFolder(part string) string { return rowsFolder + digest(part) + "/" }

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return sortEncoding.EncodeToString(sum[:])[:hashChars]
}

// sortPath is the path of a sort key below its part's folder.
func sortPath(sort string) string {
	if len(sort) <= plainBytes {
		return stem(sort) + terminator
	}
	return stem(sort[:plainBytes]) + hashMark + digest(sort)
}

// stem is a sort key in characters, cut into folders, without an end. It is empty or ends with a slash where the last folder
// is just full.
func stem(sort string) string {
	text := sortEncoding.EncodeToString([]byte(sort))
	var path strings.Builder
	for len(text) >= folderChars {
		path.WriteString(text[:folderChars] + "/")
		text = text[folderChars:]
	}
	path.WriteString(text)
	return path.String()
}

// startOf is a path right below those of the rows that a listing returns: those that start with prefix and are greater than
// after. It reports false if there can be none. For keys that end in a digest it may lie below more.
func startOf(prefix, after string) (string, bool) {
	if after > prefix && !strings.HasPrefix(after, prefix) {
		return "", false
	}
	if after != "" && after >= prefix {
		if len(after) > plainBytes {
			return stem(after[:plainBytes]) + afterPlain, true
		}
		return sortPath(after), true
	}
	switch {
	case prefix == "":
		return "", true
	case len(prefix) > plainBytes:
		return stem(prefix[:plainBytes]) + afterPlain, true
	}
	return stem(prefix) + justBelow, true
}

var errNoRowPath = errors.New("no row has such a key")

// parsePath reads a path that sortPath made. whole is false if sort is only the first plainBytes of the key.
func parsePath(path string) (sort string, whole bool, err error) {
	folders, leaf := "", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		folders, leaf = path[:i+1], path[i+1:]
	}
	last, whole := strings.CutSuffix(leaf, terminator)
	if !whole {
		mark := len(leaf) - hashChars - len(hashMark)
		if mark < 0 || leaf[mark:mark+len(hashMark)] != hashMark {
			return "", false, errNoRowPath
		}
		last = leaf[:mark]
	}
	raw, err := sortEncoding.DecodeString(strings.ReplaceAll(folders, "/", "") + last)
	if err != nil {
		return "", false, errNoRowPath
	}
	sort = string(raw)
	if whole && sortPath(sort) != path || !whole && (len(sort) != plainBytes || stem(sort) != folders+last) {
		return "", false, errNoRowPath
	}
	return sort, whole, nil
}
