package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes. In text it is a whole number, alone or with one of the units KiB, MiB, GiB and TiB.
type Size int64

// The units of a Size, the largest first.
var units = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

var errNotASize = errors.New("is not a size")

// ParseSize reads the text form of a Size; the unit may follow after a blank.
func ParseSize(text string) (Size, error) {
	digits, factor := text, int64(1)
	for _, unit := range units {
		if rest, ok := strings.CutSuffix(text, unit.name); ok {
			digits, factor = strings.TrimSuffix(rest, " "), unit.bytes
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || int64(n) > math.MaxInt64/factor {
		return 0, fmt.Errorf("%q %w", text, errNotASize)
	}
	return Size(int64(n) * factor), nil
}

// String writes the size with the largest unit that divides it.
func (s Size) String() string {
	for _, unit := range units {
		if s != 0 && int64(s)%unit.bytes == 0 {
			return strconv.FormatInt(int64(s)/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}
