package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/tailrace-streams/tailrace/iac/provider/schema"
)

//go:embed schema.json
var served []byte

// server answers what Terraform asks of a provider before it plans. The rest, which the embedded interface stands for, is
// never asked: mock_provider answers in its place, and configure refuses to go on without it.
type server struct {
	tfprotov6.ProviderServer
	schema *tfprotov6.GetProviderSchemaResponse
}

func newServer() (*server, error) {
	var p schema.Provider
	if err := json.Unmarshal(served, &p); err != nil {
		return nil, fmt.Errorf("decode schema: %w", err)
	}
	r := &tfprotov6.GetProviderSchemaResponse{
		ResourceSchemas: map[string]*tfprotov6.Schema{}, DataSourceSchemas: map[string]*tfprotov6.Schema{},
	}
	var err error
	if r.Provider, err = wireSchema(p.Configuration); err != nil {
		return nil, err
	}
	for name, block := range p.Resources {
		if r.ResourceSchemas[name], err = wireSchema(block); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, block := range p.DataSources {
		if r.DataSourceSchemas[name], err = wireSchema(block); err != nil {
			return nil, fmt.Errorf("data source %s: %w", name, err)
		}
	}
	return &server{schema: r}, nil
}

func wireSchema(b schema.Block) (*tfprotov6.Schema, error) {
	block, err := wireBlock(b)
	return &tfprotov6.Schema{Block: block}, err
}

func wireBlock(b schema.Block) (*tfprotov6.SchemaBlock, error) {
	out := &tfprotov6.SchemaBlock{}
	for name, a := range b.Attributes {
		t, err := wireType(a.Type)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out.Attributes = append(out.Attributes, &tfprotov6.SchemaAttribute{
			Name: name, Type: t, Required: a.Required, Optional: a.Optional, Computed: a.Computed,
		})
	}
	for name, n := range b.Blocks {
		inner, err := wireBlock(n.Block)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		nesting := map[string]tfprotov6.SchemaNestedBlockNestingMode{
			"list": tfprotov6.SchemaNestedBlockNestingModeList, "set": tfprotov6.SchemaNestedBlockNestingModeSet,
			"single": tfprotov6.SchemaNestedBlockNestingModeSingle,
		}[n.Nesting]
		out.BlockTypes = append(out.BlockTypes, &tfprotov6.SchemaNestedBlock{
			TypeName: name, Block: inner, Nesting: nesting, MinItems: n.Min, MaxItems: n.Max,
		})
	}
	return out, nil
}

func wireType(t any) (tftypes.Type, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	//lint:ignore SA1019 it is the one reader of that form in the module
	return tftypes.ParseJSONType(text)
}

func (s *server) GetMetadata(context.Context, *tfprotov6.GetMetadataRequest) (*tfprotov6.GetMetadataResponse, error) {
	r := &tfprotov6.GetMetadataResponse{ServerCapabilities: s.schema.ServerCapabilities}
	for name := range s.schema.ResourceSchemas {
		r.Resources = append(r.Resources, tfprotov6.ResourceMetadata{TypeName: name})
	}
	for name := range s.schema.DataSourceSchemas {
		r.DataSources = append(r.DataSources, tfprotov6.DataSourceMetadata{TypeName: name})
	}
	return r, nil
}

func (s *server) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	return s.schema, nil
}

func (s *server) GetResourceIdentitySchemas(context.Context, *tfprotov6.GetResourceIdentitySchemasRequest) (*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov6.GetResourceIdentitySchemasResponse{}, nil
}

func (s *server) GetFunctions(context.Context, *tfprotov6.GetFunctionsRequest) (*tfprotov6.GetFunctionsResponse, error) {
	return &tfprotov6.GetFunctionsResponse{}, nil
}

func (s *server) ValidateProviderConfig(_ context.Context, r *tfprotov6.ValidateProviderConfigRequest) (*tfprotov6.ValidateProviderConfigResponse, error) {
	return &tfprotov6.ValidateProviderConfigResponse{PreparedConfig: r.Config}, nil
}

func (s *server) ValidateResourceConfig(context.Context, *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	return &tfprotov6.ValidateResourceConfigResponse{}, nil
}

func (s *server) ValidateDataResourceConfig(context.Context, *tfprotov6.ValidateDataResourceConfigRequest) (*tfprotov6.ValidateDataResourceConfigResponse, error) {
	return &tfprotov6.ValidateDataResourceConfigResponse{}, nil
}

// ConfigureProvider comes before anything is planned or made.
func (s *server) ConfigureProvider(context.Context, *tfprotov6.ConfigureProviderRequest) (*tfprotov6.ConfigureProviderResponse, error) {
	return &tfprotov6.ConfigureProviderResponse{Diagnostics: []*tfprotov6.Diagnostic{{
		Severity: tfprotov6.DiagnosticSeverityError,
		Summary:  "This provider only checks",
		Detail:   "It has the names and types of hashicorp/aws and makes nothing. Unset TF_CLI_CONFIG_FILE and run terraform init to get the real one.",
	}}}, nil
}

func (s *server) StopProvider(context.Context, *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse, error) {
	return &tfprotov6.StopProviderResponse{}, nil
}
