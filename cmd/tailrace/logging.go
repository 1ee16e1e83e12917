package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/functions/config"
)

// newLog makes the one logger of the process. It writes to stderr; stdout has the first lines for people and scripts.
func newLog(w io.Writer, cfg config.Config) (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(string(cfg.LogLevel))
	if err != nil {
		return zerolog.Logger{}, fmt.Errorf("make log: %w", err)
	}
	if cfg.LogFormat == config.LogConsole || cfg.LogFormat == config.LogAuto && isTerminal(w) {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: !isTerminal(w)}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger(), nil
}

// isTerminal reports whether w is a device of characters, which apart from terminals is only ever one like /dev/null.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// serverErrors turns the lines that net/http logs on its own into our log: broken handshakes, panics of handlers.
type serverErrors struct{ log zerolog.Logger }

func (s serverErrors) Write(line []byte) (int, error) {
	level := zerolog.WarnLevel
	if bytes.Contains(line, []byte("TLS handshake error")) {
		level = zerolog.DebugLevel // of every port scan, and of load balancers that only connect
	}
	s.log.WithLevel(level).Str("from", "net/http").Msg(strings.TrimSpace(string(line)))
	return len(line), nil
}
