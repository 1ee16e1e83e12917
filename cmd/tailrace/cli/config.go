package cli

import (
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/tailrace-streams/tailrace/client"
	"github.com/tailrace-streams/tailrace/wire"
)

// byDefault is the value of a flag that resets a setting.
const byDefault = "default"

// streamFlags configure a stream, or the defaults of a basin's streams.
type streamFlags struct {
	storage, retention, mode, uncapped, deleteOnEmpty, fencing string
	flags                                                      *pflag.FlagSet
}

func (f *streamFlags) addTo(flags *pflag.FlagSet) {
	f.flags = flags
	flags.StringVar(&f.storage, "storage-class", "", "standard or express")
	flags.StringVar(&f.retention, "retention-policy", "", "how long records are kept, such as 7d, or infinite")
	flags.StringVar(&f.mode, "timestamping-mode", "", "client-prefer, client-require or arrival")
	flags.StringVar(&f.uncapped, "timestamping-uncapped", "", "true lets records have times in the future")
	flags.StringVar(&f.deleteOnEmpty, "delete-on-empty-min-age", "", "delete the stream when it has been empty so long; 0s never does")
	flags.StringVar(&f.fencing, "fencing", "", "cooperative or exclusive: whether appends without a fencing token are checked as well")
}

// change is what the flags that were given change.
func (f *streamFlags) change() (change client.StreamReconfiguration, err error) {
	change.StorageClass = textOption[wire.StorageClass](f.flags, "storage-class", f.storage)
	change.Fencing = textOption[wire.FencingMode](f.flags, "fencing", f.fencing)
	mode := textOption[wire.TimestampingMode](f.flags, "timestamping-mode", f.mode)
	uncapped, err := parsedOption(f.flags, "timestamping-uncapped", f.uncapped, boolOf)
	if err != nil {
		return change, err
	}
	if mode.Present() || uncapped.Present() {
		change.Timestamping = wire.Some(wire.TimestampingReconfiguration{Mode: mode, Uncapped: uncapped})
	}
	if change.RetentionPolicy, err = parsedOption(f.flags, "retention-policy", f.retention, retentionOf); err != nil {
		return change, err
	}
	age, err := parsedOption(f.flags, "delete-on-empty-min-age", f.deleteOnEmpty, secondsOf)
	if age.Present() {
		change.DeleteOnEmpty = wire.Some(wire.DeleteOnEmptyReconfiguration{MinAgeSecs: age})
	}
	return change, err
}

// config is what the flags say of something new, nil if they say nothing.
func (f *streamFlags) config() (*client.StreamConfig, error) {
	change, err := f.change()
	if err != nil {
		return nil, err
	}
	c := client.StreamConfig{StorageClass: valueOf(change.StorageClass), RetentionPolicy: valueOf(change.RetentionPolicy), Fencing: valueOf(change.Fencing)}
	if t, ok := change.Timestamping.Get(); ok {
		c.Timestamping = &wire.Timestamping{Mode: valueOf(t.Mode), Uncapped: valueOf(t.Uncapped)}
	}
	if d, ok := change.DeleteOnEmpty.Get(); ok {
		if age, ok := d.MinAgeSecs.Get(); ok {
			c.DeleteOnEmpty = &wire.DeleteOnEmpty{MinAgeSecs: age}
		}
	}
	if c == (client.StreamConfig{}) {
		return nil, nil
	}
	return &c, nil
}

// basinFlags configure a basin.
type basinFlags struct {
	streams                  streamFlags
	cipher, onAppend, onRead string
}

func (f *basinFlags) addTo(flags *pflag.FlagSet) {
	f.streams.addTo(flags)
	flags.StringVar(&f.cipher, "stream-cipher", "", "encrypt the records of new streams: aes-256-gcm; readers and writers bring the key")
	flags.StringVar(&f.onAppend, "create-stream-on-append", "", "true makes a stream when something is appended to it")
	flags.StringVar(&f.onRead, "create-stream-on-read", "", "true makes a stream when it is read")
	for _, name := range []string{"create-stream-on-append", "create-stream-on-read"} {
		flags.Lookup(name).NoOptDefVal = "true"
	}
}

func (f *basinFlags) change() (change client.BasinReconfiguration, err error) {
	flags := f.streams.flags
	change.StreamCipher = textOption[wire.Cipher](flags, "stream-cipher", f.cipher)
	for _, b := range []struct {
		name, value string
		to          **bool
	}{
		{"create-stream-on-append", f.onAppend, &change.CreateStreamOnAppend},
		{"create-stream-on-read", f.onRead, &change.CreateStreamOnRead},
	} {
		option, err := parsedOption(flags, b.name, b.value, boolOf)
		if err != nil {
			return change, err
		}
		if *b.to = valueOf(option); option.IsNull() {
			*b.to = new(bool)
		}
	}
	streams, err := f.streams.change()
	if streams != (client.StreamReconfiguration{}) {
		change.DefaultStreamConfig = wire.Some(streams)
	}
	return change, err
}

func (f *basinFlags) config() (*client.BasinConfig, error) {
	change, err := f.change()
	if err != nil {
		return nil, err
	}
	streams, err := f.streams.config()
	c := client.BasinConfig{DefaultStreamConfig: streams, StreamCipher: valueOf(change.StreamCipher)}
	for to, value := range map[*bool]*bool{
		&c.CreateStreamOnAppend: change.CreateStreamOnAppend, &c.CreateStreamOnRead: change.CreateStreamOnRead,
	} {
		*to = value != nil && *value
	}
	if c == (client.BasinConfig{}) {
		return nil, err
	}
	return &c, err
}

// textOption is what a flag says of a setting: nothing, its default, or a value that the server judges.
func textOption[T ~string](flags *pflag.FlagSet, name, value string) wire.Optional[T] {
	option, _ := parsedOption(flags, name, value, func(_, text string) (T, error) { return T(text), nil })
	return option
}

func parsedOption[T any](flags *pflag.FlagSet, name, value string, parse func(flag, text string) (T, error)) (wire.Optional[T], error) {
	switch {
	case !flags.Changed(name):
		return wire.Optional[T]{}, nil
	case value == byDefault:
		return wire.Null[T](), nil
	}
	v, err := parse("--"+name, value)
	return wire.Some(v), err
}

func valueOf[T any](o wire.Optional[T]) *T {
	v, there := o.Get()
	return optional(v, there)
}

func boolOf(flag, text string) (bool, error) {
	v, err := strconv.ParseBool(text)
	if err != nil {
		return false, usagef("%s %q is none of true, false and %s", flag, text, byDefault)
	}
	return v, nil
}

func retentionOf(flag, text string) (wire.RetentionPolicy, error) {
	if text == "infinite" {
		return wire.RetentionPolicy{Infinite: true}, nil
	}
	age, err := secondsOf(flag, text)
	return wire.RetentionPolicy{Age: age}, err
}

func secondsOf(flag, text string) (uint64, error) {
	d, err := durationOf(flag, text)
	if err == nil && d%time.Second != 0 {
		err = usagef("%s %s: whole seconds are the finest", flag, text)
	}
	return uint64(d / time.Second), err
}
