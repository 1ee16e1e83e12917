// Package schema is the form of the schema that is generated and served: what of a provider's own a check of
// configurations needs.
package schema

// Provider is the schema of a provider, of one version.
type Provider struct {
	Version       string           `json:"version"`
	Configuration Block            `json:"configuration"`
	Resources     map[string]Block `json:"resources"`
	DataSources   map[string]Block `json:"data_sources"`
}

// Block has attributes and blocks, by their names.
type Block struct {
	Attributes map[string]Attribute   `json:"attributes,omitempty"`
	Blocks     map[string]NestedBlock `json:"blocks,omitempty"`
}

// Attribute is of a type as Terraform writes it in JSON: "string", ["list","string"].
type Attribute struct {
	Type     any  `json:"type"`
	Required bool `json:"required,omitempty"`
	Optional bool `json:"optional,omitempty"`
	Computed bool `json:"computed,omitempty"`
}

// NestedBlock is a block within another: a list, a set, or single. Max is 0 for any number.
type NestedBlock struct {
	Nesting string `json:"nesting"`
	Min     int64  `json:"min,omitempty"`
	Max     int64  `json:"max,omitempty"`
	Block   Block  `json:"block"`
}
