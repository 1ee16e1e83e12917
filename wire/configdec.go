package wire

import (
	"slices"
	"strings"
)

// field says how one key of an object is read.
type field func(s *scanner) error

// fields reads an object whose keys are known; other keys are skipped.
func (s *scanner) fields(known map[string]field) error {
	return s.object(func(key []byte) error {
		read, ok := known[string(key)]
		if !ok {
			return s.skip()
		}
		name := string(key) // reading may overwrite key
		return within(name, read(s))
	})
}

// nullableField reads null as absence into *to.
func nullableField[T any](to **T, read func(*scanner) (T, error)) field {
	return func(s *scanner) error { return assignNullable(s, to, read) }
}

// plainField refuses null.
func plainField[T any](to *T, read func(*scanner) (T, error)) field {
	return func(s *scanner) error { return assign(s, to, read) }
}

// optionalField keeps the three states.
func optionalField[T any](to *Optional[T], read func(*scanner) (T, error)) field {
	return func(s *scanner) error { return readOptional(s, to, read) }
}

// readEnum reads one of the given strings.
func readEnum[T ~string](values ...T) func(*scanner) (T, error) {
	return func(s *scanner) (T, error) {
		text, err := s.str()
		if err != nil {
			return "", err
		}
		if i := slices.Index(values, T(text)); i >= 0 {
			return values[i], nil
		}
		names := make([]string, len(values))
		for i, v := range values {
			names[i] = string(v)
		}
		return "", Errorf(CodeBadJSON, "want one of %s", strings.Join(names, ", "))
	}
}

var (
	readStorageClass = readEnum(StorageStandard, StorageExpress)
	readMode         = readEnum(TimestampClientPrefer, TimestampClientRequire, TimestampArrival)
	readCipher       = readEnum(CipherAEGIS256, CipherAES256GCM)
	readFencing      = readEnum(FencingCooperative, FencingExclusive)
)

// readRetention refuses any second key, as S2 does: the key is the kind of the policy.
func readRetention(s *scanner) (p RetentionPolicy, err error) {
	keys := 0
	err = s.object(func(key []byte) error {
		keys++
		switch string(key) {
		case "age":
			return within("age", assign(s, &p.Age, (*scanner).u64))
		case "infinite":
			p.Infinite = true
			return within("infinite", s.object(func([]byte) error { return s.skip() }))
		}
		return s.fail(`the key "age" or "infinite"`)
	})
	if err == nil && keys != 1 {
		err = s.fail(`exactly one of "age" and "infinite"`)
	}
	return p, err
}

func readTimestamping(s *scanner) (t Timestamping, err error) {
	err = s.fields(map[string]field{
		"mode":     nullableField(&t.Mode, readMode),
		"uncapped": nullableField(&t.Uncapped, (*scanner).boolean),
	})
	return t, err
}

func readDeleteOnEmpty(s *scanner) (d DeleteOnEmpty, err error) {
	err = s.fields(map[string]field{"min_age_secs": plainField(&d.MinAgeSecs, (*scanner).u64)})
	return d, err
}

func readStreamConfig(s *scanner) (c StreamConfig, err error) {
	err = s.fields(map[string]field{
		"storage_class":    nullableField(&c.StorageClass, readStorageClass),
		"retention_policy": nullableField(&c.RetentionPolicy, readRetention),
		"timestamping":     nullableField(&c.Timestamping, readTimestamping),
		"delete_on_empty":  nullableField(&c.DeleteOnEmpty, readDeleteOnEmpty),
		"fencing":          nullableField(&c.Fencing, readFencing),
	})
	return c, err
}

func readBasinConfig(s *scanner) (c BasinConfig, err error) {
	err = s.fields(map[string]field{
		"default_stream_config":   nullableField(&c.DefaultStreamConfig, readStreamConfig),
		"stream_cipher":           nullableField(&c.StreamCipher, readCipher),
		"create_stream_on_append": plainField(&c.CreateStreamOnAppend, (*scanner).boolean),
		"create_stream_on_read":   plainField(&c.CreateStreamOnRead, (*scanner).boolean),
	})
	return c, err
}

func readTimestampingChange(s *scanner) (c TimestampingReconfiguration, err error) {
	err = s.fields(map[string]field{
		"mode":     optionalField(&c.Mode, readMode),
		"uncapped": optionalField(&c.Uncapped, (*scanner).boolean),
	})
	return c, err
}

func readDeleteOnEmptyChange(s *scanner) (c DeleteOnEmptyReconfiguration, err error) {
	err = s.fields(map[string]field{"min_age_secs": optionalField(&c.MinAgeSecs, (*scanner).u64)})
	return c, err
}

func readStreamChange(s *scanner) (c StreamReconfiguration, err error) {
	err = s.fields(map[string]field{
		"storage_class":    optionalField(&c.StorageClass, readStorageClass),
		"retention_policy": optionalField(&c.RetentionPolicy, readRetention),
		"timestamping":     optionalField(&c.Timestamping, readTimestampingChange),
		"delete_on_empty":  optionalField(&c.DeleteOnEmpty, readDeleteOnEmptyChange),
		"fencing":          optionalField(&c.Fencing, readFencing),
	})
	return c, err
}

func readBasinChange(s *scanner) (c BasinReconfiguration, err error) {
	onAppend := func(s *scanner) (*bool, error) { v, err := s.boolean(); return &v, err }
	err = s.fields(map[string]field{
		"default_stream_config":   optionalField(&c.DefaultStreamConfig, readStreamChange),
		"stream_cipher":           optionalField(&c.StreamCipher, readCipher),
		"create_stream_on_append": plainField(&c.CreateStreamOnAppend, onAppend),
		"create_stream_on_read":   plainField(&c.CreateStreamOnRead, onAppend),
	})
	return c, err
}

// decodeAs reads a whole body as one value.
func decodeAs[T any](body []byte, read func(*scanner) (T, error)) (v T, err error) {
	err = decodeJSON(body, func(s *scanner) error { return assign(s, &v, read) })
	return v, err
}

// DecodeStreamConfig reads the body of a PUT of a stream. All Decode functions for bodies overwrite them.
func DecodeStreamConfig(body []byte) (StreamConfig, error) { return decodeAs(body, readStreamConfig) }

// DecodeBasinConfig reads a basin's config, such as a client gets it.
func DecodeBasinConfig(body []byte) (BasinConfig, error) { return decodeAs(body, readBasinConfig) }

// DecodeStreamReconfiguration reads the body of a PATCH of a stream.
func DecodeStreamReconfiguration(body []byte) (StreamReconfiguration, error) {
	return decodeAs(body, readStreamChange)
}

// DecodeBasinReconfiguration reads the body of a PATCH of a basin.
func DecodeBasinReconfiguration(body []byte) (BasinReconfiguration, error) {
	return decodeAs(body, readBasinChange)
}

// UnmarshalJSON lets encoding/json read a policy, as strictly as a request's.
func (p *RetentionPolicy) UnmarshalJSON(text []byte) (err error) {
	*p, err = decodeAs(slices.Clone(text), readRetention)
	return err
}
