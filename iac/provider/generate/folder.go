package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/tailrace-streams/tailrace/iac/provider/schema"
)

// folder is one resource, data source or the provider, as the package has it.
type folder struct{ code, declarations string }

var (
	resourceType = regexp.MustCompile(`terraformResourceType: '([a-z0-9_]+)'`)
	versionOf    = regexp.MustCompile(`providerVersion: '([0-9.]+)'`)
	dataSource   = regexp.MustCompile(`extends cdkt[fn]\.TerraformDataSource`)
	mainClass    = regexp.MustCompile(`class (\w+) extends cdkt[fn]\.Terraform(?:Resource|DataSource|Provider) \{`)

	// What an argument's line says: its name, its value, whether it is a block, and of what.
	argument = regexp.MustCompile(`(?s)\n\s+(\w+): \{\s+value: (.*?),\s+isBlock: (true|false),\s+type: "(\w+)",\s+storageClassType: "(\w+)"`)
	// What a value that only the provider sets says.
	computed = regexp.MustCompile(`// (\w+) - computed: true, optional: false, required: false\s+(?:this\._\w+ = new (\w+)\(|get \w+\(\) \{\s+return ([^;]+);)`)
	member   = regexp.MustCompile(`(?m)^    readonly (\w+)(\?)?: `)
)

var errShape = errors.New("the package does not look as it used to")

// identity is the name that configurations use, with "data." before that of a data source, and the provider's version.
func (f *folder) identity() (name, version string, err error) {
	n, v := resourceType.FindStringSubmatch(f.code), versionOf.FindStringSubmatch(f.code)
	if v == nil {
		return "", "", fmt.Errorf("%w: no version", errShape)
	}
	if n == nil {
		return "aws", v[1], nil
	}
	if dataSource.MatchString(f.code) {
		return "data." + n[1], v[1], nil
	}
	return n[1], v[1], nil
}

// resource is the schema of the folder's own class.
func (f *folder) resource() (schema.Block, error) {
	class := mainClass.FindStringSubmatch(f.code)
	if class == nil {
		return schema.Block{}, fmt.Errorf("%w: no class", errShape)
	}
	body := between(f.code, class[0], "\nexports."+class[1])
	arguments := between(body, "synthesizeHclAttributes() {", "// remove undefined attributes")
	return f.block(arguments, class[1]+"Config", body)
}

// nested is the schema of a block.
func (f *folder) nested(name string) (schema.Block, error) {
	function := strings.ToLower(name[:1]) + name[1:] + "ToHclTerraform(struct) {"
	arguments := between(f.code, "function "+function, "\n}")
	if arguments == "" {
		// A type whose name begins with several capitals keeps them apart from the function's; find it by its letters.
		at := strings.Index(strings.ToLower(f.code), "function "+strings.ToLower(function))
		if at < 0 {
			return schema.Block{}, fmt.Errorf("%w: no function of the block %s", errShape, name)
		}
		arguments = between(f.code[at:], "{", "\n}")
	}
	return f.block(arguments, name, between(f.code, "class "+name+"OutputReference extends", "\nexports."))
}

// block puts together what is settable, from the arguments, and what is computed, from the body of the class.
func (f *folder) block(arguments, declared, class string) (schema.Block, error) {
	b := schema.Block{Attributes: map[string]schema.Attribute{}, Blocks: map[string]schema.NestedBlock{}}
	required, known := f.members(declared)
	if !known {
		return b, fmt.Errorf("%w: no declaration of %s", errShape, declared)
	}
	for _, m := range argument.FindAllStringSubmatch(arguments, -1) {
		name, value, isBlock, kind, storage := m[1], m[2], m[3] == "true", m[4], m[5]
		must := required[letters(name)]
		if isBlock {
			inner, err := f.nested(strings.TrimSuffix(storage, "List"))
			if err != nil {
				return b, err
			}
			b.Blocks[name] = nestedBlock(inner, kind, strings.Contains(value, "listMapperHcl("), must)
			continue
		}
		t, err := typeOf(kind, storage)
		if err != nil {
			return b, fmt.Errorf("%s: %w", name, err)
		}
		// Which optional arguments the provider fills in when they are left out, the package does not say.
		b.Attributes[name] = schema.Attribute{Type: t, Required: must, Optional: !must, Computed: !must}
	}
	for _, m := range computed.FindAllStringSubmatch(class, -1) {
		if _, settable := b.Attributes[m[1]]; !settable {
			b.Attributes[m[1]] = schema.Attribute{Type: computedType(m[3]), Computed: true}
		}
	}
	return b, nil
}

// nestedBlock says how often a block may stand. One that is not mapped over a list stands once at most.
func nestedBlock(inner schema.Block, kind string, many, must bool) schema.NestedBlock {
	n := schema.NestedBlock{Nesting: kind, Block: inner}
	switch {
	case kind == "struct":
		n.Nesting = "single"
	case !many:
		n.Max = 1
	}
	if must && n.Nesting != "single" {
		n.Min = 1
	}
	return n
}

// members says which members an interface has, by their letters alone, and whether each is required.
func (f *folder) members(name string) (required map[string]bool, known bool) {
	body := between(f.declarations, "export interface "+name+" ", "\n}")
	required = map[string]bool{}
	for _, m := range member.FindAllStringSubmatch(body, -1) {
		required[letters(m[1])] = m[2] == ""
	}
	return required, body != ""
}

// letters is what a_snake_name and aCamelName have in common.
func letters(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

func between(text, from, to string) string {
	at := strings.Index(text, from)
	if at < 0 {
		return ""
	}
	text = text[at+len(from):]
	if end := strings.Index(text, to); end >= 0 {
		return text[:end]
	}
	return text
}

// typeOf is a type as Terraform writes it in JSON.
func typeOf(kind, storage string) (any, error) {
	element := map[string]string{
		"string": "string", "number": "number", "boolean": "bool", "any": "dynamic",
		"stringList": "string", "numberList": "number", "booleanList": "bool",
		"stringMap": "string", "numberMap": "number", "booleanMap": "bool", "anyMap": "dynamic",
	}[storage]
	switch {
	case element == "":
		return nil, fmt.Errorf("%w: a %s of %s", errShape, kind, storage)
	case kind == "simple":
		return element, nil
	case kind == "list", kind == "set", kind == "map":
		return []any{kind, element}, nil
	}
	return nil, fmt.Errorf("%w: a %s of %s", errShape, kind, storage)
}

// computedType reads a type off the call that gets a value. What has a type of its own is dynamic: nobody sets it.
func computedType(get string) any {
	for call, t := range map[string]any{
		"getStringAttribute": "string", "getNumberAttribute": "number", "getBooleanAttribute": "bool",
		"getListAttribute": []any{"list", "string"}, "getStringMapAttribute": []any{"map", "string"},
		"getNumberListAttribute": []any{"list", "number"},
	} {
		if strings.Contains(get, call+"(") {
			return t
		}
	}
	return "dynamic"
}
