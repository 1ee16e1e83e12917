package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"
)

// progress counts what passes, shows it while it takes long and somebody is looking, and sums it up at the end.
type progress struct {
	began          time.Time
	records, bytes uint64
	bar            *progressbar.ProgressBar // nil where nobody is looking
}

// progressAfter is how long something takes before its progress is shown.
const progressAfter = 700 * time.Millisecond

// newProgress begins to count. total is how many bytes there will be, negative if nobody knows.
func newProgress(stderr io.Writer, what string, total int64) *progress {
	p := &progress{began: time.Now()}
	if isTerminal(stderr) {
		p.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(stderr), progressbar.OptionSetDescription(what), progressbar.OptionShowBytes(true),
			progressbar.OptionThrottle(200*time.Millisecond), progressbar.OptionSetRenderBlankState(false),
			progressbar.OptionSetPredictTime(total >= 0), progressbar.OptionSetElapsedTime(true), progressbar.OptionClearOnFinish())
	}
	return p
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && (isatty.IsTerminal(file.Fd()) || isatty.IsCygwinTerminal(file.Fd()))
}

// sizeOf is the size of an input that is a file, negative for others.
func sizeOf(input io.Reader) int64 {
	if file, ok := input.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			return info.Size()
		}
	}
	return -1
}

// add counts a record and the bytes of its line.
func (p *progress) add(bytes int) {
	p.records++
	p.bytes += uint64(bytes)
	if p.bar != nil && time.Since(p.began) > progressAfter {
		// An error of the terminal is not one of the verb.
		_ = p.bar.Set64(int64(p.bytes))
	}
}

// end takes the progress away.
func (p *progress) end() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

// String sums up.
func (p *progress) String() string {
	took := max(time.Since(p.began), time.Microsecond)
	return fmt.Sprintf("%s, %s in %s: %s/s, %.0f records/s", countOf(p.records, "record"), sizeText(float64(p.bytes)),
		took.Round(time.Millisecond), sizeText(float64(p.bytes)/took.Seconds()), float64(p.records)/took.Seconds())
}

// sizeText is a number of bytes for people.
func sizeText(bytes float64) string {
	for _, unit := range []struct {
		name string
		of   float64
	}{{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		if bytes >= unit.of {
			return fmt.Sprintf("%.1f %s", bytes/unit.of, unit.name)
		}
	}
	return fmt.Sprintf("%.0f B", bytes)
}
