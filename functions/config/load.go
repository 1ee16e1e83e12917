package config

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/providers/posflag"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

// Load reads the configuration: flags before the environment before the file before the defaults. flags is what AddFlags
// filled and was then parsed, or nil where there is no command line; environ is as os.Environ returns it. The error is
// a Faults with everything that is wrong.
func Load(flags *pflag.FlagSet, environ []string) (Config, error) {
	return loadFor(forStores, flags, environ)
}

// LoadForServing is Load for a command that serves: the files that a server reads besides are looked into as well.
func LoadForServing(flags *pflag.FlagSet, environ []string) (Config, error) {
	return loadFor(forServing, flags, environ)
}

// LoadForTable is Load for a command that works on the table alone: heads is needed, objects is not.
func LoadForTable(flags *pflag.FlagSet, environ []string) (Config, error) {
	return loadFor(forTable, flags, environ)
}

// LoadForFunction is Load for a function, which has no port and no command line, and no folder.
func LoadForFunction(environ []string) (Config, error) {
	return loadFor(forFunction, nil, environ)
}

func loadFor(rules rules, flags *pflag.FlagSet, environ []string) (Config, error) {
	l := &loader{merged: koanf.New("."), origins: map[string]string{}}
	l.faults = unknownVariables(environ)
	path, pathOrigin := filePath(flags, environ)
	if path != "" {
		l.addFile(path, pathOrigin)
	}
	l.add(env.Provider("", env.Opt{
		Prefix: envPrefix, EnvironFunc: func() []string { return environ }, TransformFunc: fromVariable,
	}), func(s *setting) string { return "environment " + s.variable })
	if flags != nil {
		l.add(posflag.ProviderWithFlag(flags, ".", nil, func(f *pflag.Flag) (string, any) {
			return f.Name, f.Value.String()
		}), func(s *setting) string { return "--" + s.name })
	}
	c := l.decode()
	// What could be read is judged as well, but for rules about a setting that could not: its value is unknown.
	v := &validator{origins: l.origins, unread: l.faults}
	v.validate(c, rules)
	l.faults = append(l.faults, slices.DeleteFunc(v.faults, func(f Fault) bool { return v.isUnread(f.Setting) })...)
	if len(l.faults) > 0 {
		slices.SortStableFunc(l.faults, func(a, b Fault) int { return rank(a) - rank(b) })
		return Config{}, l.faults
	}
	return c, nil
}

// rank orders faults as the manual orders settings; what is no setting comes first.
func rank(f Fault) int {
	return slices.IndexFunc(settings, func(s setting) bool { return s.name == f.Setting })
}

// filePath says which file to read, if any, and what named it.
func filePath(flags *pflag.FlagSet, environ []string) (path, origin string) {
	if flags != nil && flags.Changed(FileFlag) {
		path, _ = flags.GetString(FileFlag)
		return path, "--" + FileFlag
	}
	for _, variable := range environ {
		if value, ok := strings.CutPrefix(variable, FileVariable+"="); ok {
			return value, "environment " + FileVariable
		}
	}
	return "", ""
}

// fromVariable maps an environment variable to its setting; those that are none, unknownVariables judges. An empty one
// counts as unset, because that is how scripts and containers unset.
func fromVariable(key, value string) (string, any) {
	name := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(key, envPrefix), "_", "-"))
	if s := find(name); s == nil || s.variable != key || value == "" {
		return "", nil
	}
	return name, value
}

// loader merges the sources, each over the ones before it, and remembers which gave a setting its value.
type loader struct {
	merged  *koanf.Koanf
	origins map[string]string // by setting; a setting without one has its default
	faults  Faults
}

// add merges a source whose keys are known to be settings, or flags of others, which are skipped.
func (l *loader) add(source koanf.Provider, origin func(*setting) string) {
	k := koanf.New(".")
	if err := k.Load(source, nil); err != nil {
		// Neither the environment nor flags can fail to be read; if a provider ever does, say so.
		l.faults = append(l.faults, Fault{Setting: "settings", Problem: err.Error(), Remedy: "report this"})
		return
	}
	l.merge(k, origin)
}

func (l *loader) merge(k *koanf.Koanf, origin func(*setting) string) {
	for _, name := range k.Keys() {
		if s := find(name); s != nil {
			l.origins[name] = origin(s)
		} else {
			k.Delete(name)
		}
	}
	// Merge fails only in koanf's strict mode.
	_ = l.merged.Merge(k)
}

// addFile merges the YAML file. A key that is no setting is a fault: it is a misspelt one that would have no effect.
func (l *loader) addFile(path, origin string) {
	k := koanf.New(".")
	if err := k.Load(file.Provider(path), yaml.Parser()); err != nil {
		l.faults = append(l.faults, Fault{
			Setting: FileFlag, Value: path, Origin: origin,
			Problem: "cannot be read: " + strings.ReplaceAll(err.Error(), "\n", " "),
			Remedy:  "name a readable YAML file, or none",
		})
		return
	}
	here := "file " + path
	for _, name := range k.Keys() {
		if find(name) == nil {
			l.faults = append(l.faults, Fault{
				Setting: name, Value: hidden, Origin: here,
				Problem: "is not a setting", Remedy: remedyForUnknown(name, keyNames()),
			})
		}
	}
	l.merge(k, func(*setting) string { return here })
}

// decode turns the merged text into a Config and notes each value that cannot be parsed.
func (l *loader) decode() Config {
	var c Config
	for _, s := range settings {
		if err := s.set(&c, s.def); err != nil {
			panic(err) // a default that does not parse; a test sets them all
		}
		if _, given := l.origins[s.name]; !given {
			continue
		}
		raw := l.merged.Get(s.name)
		value, scalar := textOf(raw)
		if !scalar || s.set(&c, value) != nil {
			if s.secret() {
				value = Secret{value}.String()
			}
			l.faults = append(l.faults, Fault{
				Setting: s.name, Value: value, Origin: l.origins[s.name],
				Problem: "is not valid", Remedy: "write " + s.form(),
			})
		}
	}
	return c
}

// textOf writes a scalar of a YAML file as it would stand in a flag. Lists, maps, dates and nothing at all are no scalars.
func textOf(raw any) (text string, scalar bool) {
	switch value := raw.(type) {
	case string:
		return value, true
	case bool, int, int64, uint64, float64:
		return fmt.Sprint(value), true
	case nil:
		return "", false
	default:
		return fmt.Sprint(value), false
	}
}

// FromProcess is Load with the environment of this process.
func FromProcess(flags *pflag.FlagSet) (Config, error) { return Load(flags, os.Environ()) }
