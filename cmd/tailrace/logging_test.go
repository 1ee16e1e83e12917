package main

import (
	"encoding/json"
	"log"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/tailrace-streams/tailrace/functions/config"
)

func testLog(w *world) zerolog.Logger { return zerolog.New(&w.log) }

func TestLogFormats(t *testing.T) {
	t.Parallel()
	for _, format := range []config.LogFormat{config.LogAuto, config.LogJSON, config.LogConsole} {
		var out buffer
		logger, err := newLog(&out, config.Config{LogLevel: config.LogWarn, LogFormat: format})
		if err != nil {
			t.Fatal(err)
		}
		logger.Info().Msg("below the level")
		logger.Warn().Int("n", 7).Msg("shown")
		var line struct {
			Level, Message, Time string
			N                    int
		}
		isJSON := json.Unmarshal([]byte(out.String()), &line) == nil
		if want := format != config.LogConsole; isJSON != want || strings.Contains(out.String(), "below") {
			t.Errorf("%s: log is %q", format, out.String())
		}
		if isJSON && (line.Level != "warn" || line.Message != "shown" || line.N != 7 || line.Time == "") {
			t.Errorf("%s: line is %+v", format, line)
		}
	}
}

// What net/http logs by itself goes into the log, one line each.
func TestServerErrorsAreLogged(t *testing.T) {
	t.Parallel()
	w := newWorld()
	log.New(serverErrors{testLog(w)}, "", 0).Print("http: something\n")
	if got := w.log.String(); !strings.Contains(got, `"message":"http: something"`) || strings.Count(got, "\n") != 1 {
		t.Errorf("log is %q", got)
	}
}
