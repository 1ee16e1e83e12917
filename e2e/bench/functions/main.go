// Command functions measures the append function beside one that does nothing, both under AWS's emulator of the Lambda
// runtime and in one run: the time from a cold start to the first answer, the time of later ones, sizes and memory. It
// prints Markdown for docs/results.md. Run it by make bench-functions, which brings the stores up.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tailrace-streams/tailrace/e2e/harness"
)

func main() {
	starts := flag.Int("starts", 20, "cold starts of each function")
	invokes := flag.Int("invokes", 1000, "warm invocations of each function")
	flag.Parse()
	if err := run(context.Background(), *starts, *invokes); err != nil {
		fmt.Fprintln(os.Stderr, "bench-functions:", err)
		os.Exit(1)
	}
}

// subject is a function to measure, and the event that it is measured by.
type subject struct {
	name, bin   string
	event, want string
	cold, warm  []time.Duration
	inits       []string
	memory      string
}

func run(ctx context.Context, starts, invokes int) error {
	work, err := os.MkdirTemp("", "tailrace-bench-functions-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	emulator, err := emulatorPath(ctx)
	if err != nil {
		return err
	}
	subjects, env, err := prepare(ctx, work, emulator)
	if err != nil {
		return err
	}
	for range starts { // in turns, so that both meet the same moments of the machine
		for _, s := range subjects {
			if err := s.start(ctx, emulator, env, 0); err != nil {
				return err
			}
		}
	}
	for _, s := range subjects {
		if err := s.start(ctx, emulator, env, invokes); err != nil {
			return err
		}
		if s.memory, err = s.remember(ctx, env); err != nil {
			return err
		}
	}
	report(ctx, subjects, starts, invokes)
	return nil
}

// emulatorPath asks tools/setup for the emulator.
func emulatorPath(ctx context.Context) (string, error) {
	root, err := harness.ModuleRoot(ctx)
	if err != nil {
		return "", err
	}
	out, err := exec.CommandContext(ctx, filepath.Join(root, "tools", "setup"), "lambda-rie").Output()
	if err != nil {
		return "", fmt.Errorf("set the emulator up: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "export "+harness.EmulatorVariable+"="); ok {
			return path, nil
		}
	}
	return "", errors.New("the emulator cannot be had")
}

const (
	basin    = "bench-functions"
	envelope = `{"operation":"append","basin":"` + basin + `","stream":"s","records":[{"body":"%s"}]}`
)

// prepare builds what is measured, and makes stores and a basin for it.
func prepare(ctx context.Context, work, emulator string) (subjects []*subject, env []string, err error) {
	root, err := harness.ModuleRoot(ctx)
	if err != nil {
		return nil, nil, err
	}
	dir, err := harness.Functions(ctx, work)
	if err != nil {
		return nil, nil, err
	}
	nothing := filepath.Join(work, "nothing")
	build := exec.CommandContext(ctx, "go", "build", "-tags", "lambda.norpc", "-trimpath", "-ldflags", "-s -w", "-o", nothing, "./functions/lambda/nothing")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("build nothing: %w\n%s", err, out)
	}
	server, err := harness.Binary(ctx, work)
	if err != nil {
		return nil, nil, err
	}
	if err := os.Setenv(harness.StoresVariable, harness.TableStores); err != nil {
		return nil, nil, err
	}
	flags, err := harness.StoreFlags(ctx, server, filepath.Join(work, "data"))
	if err != nil {
		return nil, nil, err
	}
	env = harness.FunctionEnv(flags)
	control, err := harness.StartEmulated(ctx, emulator, harness.FunctionOptions{Bin: filepath.Join(dir, "control"), Env: env})
	if err != nil {
		return nil, nil, err
	}
	answer, err := control.Invoke(ctx, []byte(`{"operation":"request","method":"PUT","path":"/v1/basins/`+basin+`","body":{"config":{"create_stream_on_append":true}}}`))
	if err = errors.Join(err, control.Kill()); err != nil || !strings.Contains(string(answer), `"status":201`) {
		return nil, nil, fmt.Errorf("make a basin: %.200s: %w", answer, err)
	}
	return []*subject{
		{name: "does nothing", bin: nothing, event: `{}`, want: `{}`},
		{name: "append", bin: filepath.Join(dir, "append"), event: fmt.Sprintf(envelope, strings.Repeat("x", 100)), want: `"status":200`},
	}, env, nil
}

// start starts the function cold and has it answer one event, and then so many more.
func (s *subject) start(ctx context.Context, emulator string, env []string, more int) error {
	e, err := harness.StartEmulated(ctx, emulator, harness.FunctionOptions{Bin: s.bin, Env: env})
	if err != nil {
		return err
	}
	defer func() { _ = e.Kill() }()
	for i := range more + 1 {
		begun := time.Now()
		answer, err := e.Invoke(ctx, []byte(s.event))
		took := time.Since(begun)
		if err != nil || !strings.Contains(string(answer), s.want) {
			return fmt.Errorf("%s answers %.200s: %w\n%s", s.name, answer, err, e.Logs())
		}
		switch {
		case i > 0:
			s.warm = append(s.warm, took)
		case more == 0:
			s.cold = append(s.cold, took)
			s.inits = append(s.inits, e.InitMillis())
		}
	}
	return nil
}

// remember is the most memory that a process of the function had, after some events.
func (s *subject) remember(ctx context.Context, env []string) (string, error) {
	f, err := harness.StartFunction(ctx, harness.FunctionOptions{Bin: s.bin, Env: env})
	if err != nil {
		return "", err
	}
	defer f.Kill()
	for range 200 {
		if _, err := f.Invoke(ctx, []byte(s.event), 20*time.Second); err != nil {
			return "", err
		}
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", f.PID()))
	if err != nil {
		return "not known here", nil
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			var kib int
			_, err := fmt.Sscan(value, &kib)
			return fmt.Sprintf("%.1f MiB", float64(kib)/1024), err
		}
	}
	return "not known here", nil
}

func report(ctx context.Context, subjects []*subject, starts, invokes int) {
	commit, _ := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	fmt.Printf("\n## Functions, %s, commit %s\n\n", time.Now().UTC().Format(time.DateOnly), strings.TrimSpace(string(commit)))
	fmt.Printf("`%s`; %s/%s, %d cores, %s, versitygw and dynalite on the same machine; %d cold starts and %d warm invocations of each, "+
		"in turns, under AWS's runtime interface emulator.\n\n", os.Getenv("BENCH_COMMAND"), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), starts, invokes)
	fmt.Print("| function | cold start to first answer p50 / p99 | of it init, by the emulator, p50 | warm p50 / p99 | program | most memory |\n|---|---|---|---|---|---|\n")
	for _, s := range subjects {
		size := int64(0)
		if info, err := os.Stat(s.bin); err == nil {
			size = info.Size()
		}
		fmt.Printf("| %s | %s | %s ms | %s | %.1f MB | %s |\n", s.name, pair(s.cold), middle(s.inits), pair(s.warm), float64(size)/1e6, s.memory)
	}
}

func pair(all []time.Duration) string {
	slices.Sort(all)
	at := func(q float64) float64 {
		return float64(all[min(int(q*float64(len(all))), len(all)-1)].Microseconds()) / 1000
	}
	return fmt.Sprintf("%.1f / %.1f ms", at(0.5), at(0.99))
}

func middle(all []string) string {
	values := make([]float64, 0, len(all))
	for _, text := range all {
		var v float64
		if _, err := fmt.Sscan(text, &v); err == nil {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return "unknown"
	}
	slices.Sort(values)
	return fmt.Sprintf("%.1f", values[len(values)/2])
}
