package config

import (
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"sync"
)

// source is the file that declares Config: its comments are the manual, so that there is one text and not three.
//
//go:embed config.go
var source []byte

// Entry is what the manual says of one setting.
type Entry struct {
	Setting, Variable string // trim-delay, TAILRACE_TRIM_DELAY
	Default           string
	// Text is the field's comment on one line; Summary its first sentence.
	Text, Summary string

	word, form string
	secret     bool // it has no flag
}

// Manual returns an entry for every setting, in order.
var Manual = sync.OnceValue(func() []Entry {
	comments := fieldComments()
	var entries []Entry
	for _, s := range settings {
		text := comments[s.field]
		summary, _, _ := strings.Cut(text, ". ")
		entries = append(entries, Entry{
			Setting: s.name, Variable: s.variable, Default: s.def, word: s.word(), form: s.form(), secret: s.secret(),
			Text: text, Summary: strings.TrimSuffix(summary, ".") + ".",
		})
	}
	return entries
})

// fieldComments reads the comment of each field of Config, with line breaks undone.
func fieldComments() map[string]string {
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", source, parser.ParseComments)
	if err != nil {
		panic(fmt.Errorf("parse the embedded source: %w", err)) // it was compiled, so it parses
	}
	comments := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "Config" {
			return true
		}
		for _, field := range spec.Type.(*ast.StructType).Fields.List {
			comments[field.Names[0].Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
		}
		return false
	})
	return comments
}

// Document is docs/configuration.md.
func Document() string {
	var doc strings.Builder
	doc.WriteString(`# Configuration

Made from the comments of functions/config/config.go by ` + "`go generate ./functions/config`" + `; change them there.

` + "`tailrace serve`" + ` takes each setting from the first of these that has it: the flag, the environment, the YAML file named by
` + "`--" + FileFlag + "` or `" + FileVariable + "`" + `, the default. An empty environment variable counts as unset. Everything wrong is reported at once, and
nothing is served until it is mended; a key in the file, or a variable ` + "`TAILRACE_…`" + `, that is not in this table is wrong
(but for the variables of the tests and tools here, and those that Kubernetes makes for services). A setting in the file
has the name of its flag:

` + "```yaml\nlisten: 127.0.0.1:8080\ndata: /var/lib/tailrace\ntrim-delay: 10s\n```" + `

| flag, key in the file | environment | default | form | meaning |
|---|---|---|---|---|
`)
	for _, e := range Manual() {
		def := "none"
		if e.Default != "" {
			def = "`" + e.Default + "`"
		}
		name := "`--" + e.Setting + "`"
		if e.secret {
			name = "no flag; `" + e.Setting + "`"
		}
		fmt.Fprintf(&doc, "| %s | `%s` | %s | %s | %s |\n", name, e.Variable, def, e.form, e.Text)
	}
	return doc.String()
}
