package main

import "testing"

// What is served is whole: every type is one of Terraform's, and what the modules rest on is there.
func TestServedSchema(t *testing.T) {
	t.Parallel()
	s, err := newServer()
	if err != nil {
		t.Fatal(err)
	}
	if s.schema.Provider == nil || len(s.schema.DataSourceSchemas) == 0 {
		t.Error("the provider's own schema, or its data sources, are missing")
	}
	permission := s.schema.ResourceSchemas["aws_lambda_permission"]
	if permission == nil {
		t.Fatal("a permission has no schema")
	}
	for _, a := range permission.Block.Attributes {
		if a.Name == "invoked_via_function_url" {
			return
		}
	}
	t.Error("a permission cannot be for calls through a URL")
}
