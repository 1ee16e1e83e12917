package config

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// setting is one field of Config by its names.
type setting struct {
	name     string // trim-delay: the flag and the key in the file
	variable string // TAILRACE_TRIM_DELAY
	field    string // TrimDelay
	def      string // the default, in text
	index    int    // of the field in Config
	kind     reflect.Type
}

const envPrefix = "TAILRACE_"

// settings lists the fields of Config in their order.
var settings = listSettings()

func listSettings() []setting {
	var list []setting
	for i, field := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		name := field.Tag.Get("setting")
		list = append(list, setting{
			name: name, variable: variableOf(name), field: field.Name,
			def: field.Tag.Get("default"), index: i, kind: field.Type,
		})
	}
	return list
}

func variableOf(name string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// find returns the setting of a name, or nil.
func find(name string) *setting {
	for i := range settings {
		if settings[i].name == name {
			return &settings[i]
		}
	}
	return nil
}

// form is what a value of a kind looks like, for help and for faults.
func (s setting) form() string {
	switch s.kind {
	case reflect.TypeFor[bool]():
		return "true or false"
	case reflect.TypeFor[time.Duration]():
		return "a number with a unit, such as 500ms, 10s or 2m"
	case reflect.TypeFor[Size]():
		return "a whole number of bytes, alone or with KiB, MiB, GiB or TiB"
	case reflect.TypeFor[LogLevel]():
		return "trace, debug, info, warn or error"
	case reflect.TypeFor[LogFormat]():
		return "auto, json or console"
	case reflect.TypeFor[Addressing]():
		return "auto, path or host"
	case reflect.TypeFor[FunctionURLMode]():
		return "buffered or response-stream"
	case reflect.TypeFor[ObjectsURL]():
		return "s3://BUCKET or s3://BUCKET/PREFIX, the prefix of parts of 0-9 A-Z a-z . _ - with slashes between"
	case reflect.TypeFor[HeadsURL]():
		return "dynamodb://TABLE, or s3://BUCKET/PREFIX"
	case reflect.TypeFor[Endpoint]():
		return "http://HOST:PORT or https://HOST"
	case reflect.TypeFor[Region]():
		return "a region, such as eu-central-1"
	case reflect.TypeFor[Domain]():
		return "a domain without port, such as example.com"
	case reflect.TypeFor[Location]():
		return "1 to 64 letters, digits, colons, dots and hyphens"
	case reflect.TypeFor[Secret]():
		return "24 or more printable characters without spaces"
	default:
		return "text"
	}
}

// secret reports whether the value must not be shown.
func (s setting) secret() bool { return s.kind == reflect.TypeFor[Secret]() }

// word is what stands for the value in flag help.
func (s setting) word() string {
	switch s.kind {
	case reflect.TypeFor[bool]():
		return "bool"
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[Size]():
		return "size"
	case reflect.TypeFor[ObjectsURL](), reflect.TypeFor[HeadsURL](), reflect.TypeFor[Endpoint]():
		return "URL"
	default:
		return "string"
	}
}

// set parses text into the setting's field of c. The error says what is wrong, without the value.
func (s setting) set(c *Config, text string) error {
	var value any
	var err error
	switch s.kind {
	case reflect.TypeFor[bool]():
		value, err = strconv.ParseBool(text)
	case reflect.TypeFor[time.Duration]():
		value, err = time.ParseDuration(text)
	case reflect.TypeFor[Size]():
		value, err = ParseSize(text)
	case reflect.TypeFor[LogLevel]():
		value, err = oneOf(text, LogTrace, LogDebug, LogInfo, LogWarn, LogError)
	case reflect.TypeFor[LogFormat]():
		value, err = oneOf(text, LogAuto, LogJSON, LogConsole)
	case reflect.TypeFor[FunctionURLMode]():
		value, err = oneOf(text, URLBuffered, URLStream)
	case reflect.TypeFor[Addressing]():
		value, err = oneOf(text, AddressAuto, AddressPath, AddressHost)
	case reflect.TypeFor[ObjectsURL]():
		value, err = ParseObjectsURL(text)
	case reflect.TypeFor[HeadsURL]():
		value, err = ParseHeadsURL(text)
	case reflect.TypeFor[Endpoint]():
		value, err = parseEndpoint(text)
	case reflect.TypeFor[Region]():
		value, err = parseRegion(text)
	case reflect.TypeFor[Secret]():
		value, err = parseSecret(text)
	case reflect.TypeFor[Domain]():
		value, err = ParseDomain(text)
	case reflect.TypeFor[Location]():
		value, err = parseLocation(text)
	default:
		value = text
	}
	if err != nil {
		return fmt.Errorf("set %s: %w", s.name, err)
	}
	reflect.ValueOf(c).Elem().Field(s.index).Set(reflect.ValueOf(value))
	return nil
}

// minSecret is what a text needs to be as hard to guess as 128 random bits, if it is random.
const minSecret = 24

func parseSecret(text string) (Secret, error) {
	unfit := func(c rune) bool { return c <= ' ' || c > '~' }
	if text != "" && (len(text) < minSecret || strings.ContainsFunc(text, unfit)) {
		return Secret{}, errors.New("is too short to be unguessable, or has spaces")
	}
	return Secret{text}, nil
}

func oneOf[T ~string](text string, allowed ...T) (T, error) {
	for _, value := range allowed {
		if text == string(value) {
			return value, nil
		}
	}
	return "", fmt.Errorf("%q is not one of %v", text, allowed)
}
